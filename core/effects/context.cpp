// Switches stacks by Boost.Context, on processors for which context.h has no code.
#include <stave/core/effects/context.h>

#if !STAVE_OWN_CONTEXT

#include <boost/context/detail/fcontext.hpp>

namespace stave_detail {
namespace {

using boost::context::detail::transfer_t;

struct Between {
  Context* left;
  const Context* next;
};

Context* arrive(transfer_t from) noexcept {
  Context* const left = static_cast<Between*>(from.data)->left;
  left->at = from.fctx;
  return left;
}

}  // namespace

void Context::begin_at(char* high, std::size_t size, void (*begin)(Context*)) noexcept {
  entry = begin;
  at = boost::context::detail::make_fcontext(high, size, [](transfer_t from) {
    const Context* const begun = static_cast<Between*>(from.data)->next;
    begun->entry(arrive(from));
  });
}

Context* exchange(Context& here, const Context& to) noexcept {
  Between between{&here, &to};
  return arrive(boost::context::detail::jump_fcontext(to.at, &between));
}

}  // namespace stave_detail

#endif
