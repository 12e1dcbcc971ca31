// Puts the names of public functions into the texts of errors.
#include <stave/core/tensor/fail.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace stave_detail {

using namespace stave;

std::string error_text(fmt::string_view text, fmt::format_args args) {
  return fmt::vformat(text, args) + error_context();
}

fmt::format_context::iterator append_text(std::string_view text, fmt::format_context& context) {
  return std::copy(text.begin(), text.end(), context.out());
}

void mark_as_ours(Error& error) noexcept { error.ours_ = true; }

void watch_text(Error& error, std::shared_ptr<bool> asked) noexcept { error.asked_ = std::move(asked); }

void name_function(Error& error, const char* function, bool rename) {
  if (!error.ours_ || dynamic_cast<const TransformError*>(&error)) return;
  std::string_view text = error.std::runtime_error::what();
  const std::size_t name = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789");
  if (name != text.npos && text.substr(name).starts_with(": ")) {
    if (!rename) return;
    text.remove_prefix(name + 2);
  }
  static_cast<std::runtime_error&>(error) = std::runtime_error(std::string(function) + ": " + std::string(text));
}

void throw_no_common_dtype(Dtype a, Dtype b) {
  fail<DtypeError>("no dtype holds the numbers of both {} and {}: convert one of the operands with astype", a, b);
}

void throw_complex(Dtype dtype) {
  fail<DtypeError>("the function is not defined for {}: compute on real(x), imag(x) or abs(x)", dtype);
}

void fail_empty(const char* function, std::size_t operand) {
  fail_transform(std::string(function) + ": operand " + std::to_string(operand) +
                 " is an empty Tensor (default-constructed or moved from)");
}

}  // namespace stave_detail
