#include <stave/handlers/model/keys.h>

#include <stave/core/ops/scoped_name.h>
#include <stave/core/tensor/fail.h>

namespace stave {

Key NextKey::unhandled() const {
  stave_detail::fail<Error>(
      "next_key: no handler provides keys: call the function by seed(f, key)(args...), or under Keys");
}

Key next_key() { return perform(NextKey()); }

Key Keys::handle(NextKey&) {
  const std::string path = stave_detail::scoped_name("");
  auto found = paths_.find(path);
  if (found == paths_.end())
    found = paths_.emplace(path, Path{path.empty() ? key_ : stave_detail::fold_in_name(key_, path)}).first;
  return fold_in(found->second.key, found->second.drawn++);
}

}  // namespace stave
