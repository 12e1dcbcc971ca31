// NamedArrays (io.h): the arrays of a file, from which the tensors of a tree are taken by name.
#include <stave/core/io/named_arrays.h>

#include <algorithm>

#include <stave/core/effects/effect.h>
#include <stave/core/io/file.h>
#include <stave/core/ops/transfer.h>
#include <stave/core/tensor/fail.h>

namespace stave_detail {

bool NamedArrays::holds(const std::string& name) const {
  const auto is_in = [&](const auto& arrays) {
    if (name.empty()) return !arrays.empty();
    if (arrays.contains(name)) return true;
    const auto below = arrays.lower_bound(name + "/");
    return below != arrays.end() && below->first.starts_with(name + "/");
  };
  return is_in(arrays_) || is_in(unreadable_);
}

std::set<std::string> NamedArrays::keys_below(const std::string& name, bool whole) const {
  const std::string start = name.empty() ? "" : name + "/";
  std::set<std::string> keys;
  for (auto at = arrays_.lower_bound(start); at != arrays_.end() && at->first.starts_with(start); ++at) {
    const std::string rest = at->first.substr(start.size());
    keys.insert(whole ? rest : rest.substr(0, rest.find('/')));
  }
  return keys;
}

Tensor NamedArrays::take(const std::string& name) {
  if (const auto why = unreadable_.find(name); why != unreadable_.end())
    fail<DtypeError>("{}: '{}' {}", where_, shown(name), why->second);
  const auto found = arrays_.find(name);
  if (found == arrays_.end()) fail<FileError>("{}: has no array '{}', but {}", where_, shown(name), some_names());
  taken_.insert(name);
  return found->second;
}

Tensor NamedArrays::take_like(const std::string& name, const Tensor& like) {
  if (const auto why = unreadable_.find(name); why != unreadable_.end()) {
    faults_.push_back({Fault::dtype, fmt::format("'{}' {}", shown(name), why->second)});
    return like;
  }
  const auto found = arrays_.find(name);
  if (found == arrays_.end()) {
    faults_.push_back({Fault::names, fmt::format("has no array '{}'", shown(name))});
    return like;
  }
  taken_.insert(name);
  const Tensor& x = found->second;
  if (!like.defined()) return x;
  if (x.shape() != like.shape())
    faults_.push_back(
        {Fault::shape, fmt::format("'{}' has shape {}, but {} is expected", shown(name), x.shape(), like.shape())});
  if (x.dtype() != like.dtype())
    faults_.push_back({Fault::dtype, fmt::format("'{}' is {}, but {} is expected: load it without `like` and convert "
                                                 "it with astype",
                                                 shown(name), x.dtype(), like.dtype())});
  const UnderFrame past_all_handlers(nullptr);
  return to(x, like.device());
}

void NamedArrays::finish() {
  const bool missing = faults_.size() == 1 && faults_[0].kind == Fault::names;
  for (const auto& [name, x] : arrays_)
    if (!taken_.contains(name))
      faults_.push_back({Fault::names, fmt::format("has an array '{}', which the tree does not have", shown(name))});
  if (faults_.empty()) return;
  if (faults_.size() == 1) {
    const auto& [kind, text] = faults_[0];
    if (kind == Fault::shape) fail<ShapeError>("{}: {}", where_, text);
    if (kind == Fault::dtype) fail<DtypeError>("{}: {}", where_, text);
    if (missing) fail<FileError>("{}: {}, but {}", where_, text, some_names());
    fail<FileError>("{}: {}", where_, text);
  }
  constexpr std::size_t most = 50;
  std::string list;
  for (std::size_t i = 0; i < std::min(faults_.size(), most); ++i) list += "\n  " + faults_[i].text;
  if (faults_.size() > most) list += fmt::format("\n  and more: {} differences in all", faults_.size());
  fail<FileError>("{}: does not fit the tree:{}", where_, list);
}

std::string NamedArrays::some_names() const {
  std::string names;
  for (const auto& [name, x] : arrays_)
    if (names.size() < 500) names += (names.empty() ? "'" : ", '") + shown(name) + "'";
  return names.empty() ? "none at all" : names;
}

void NamedArrays::refuse_key(const std::string& key) const {
  fail<FileError>("{}: '{}' is not a key of a map with these integer keys", where_, shown(key));
}

void check_names(const std::vector<NamedTensor>& arrays, const std::string& where) {
  std::set<std::string_view> names;
  for (const auto& [name, value] : arrays) {
    if (!names.insert(name).second) fail<FileError>("{}: two tensors have the name '{}'", where, shown(name));
    if (!value.defined())
      fail<TransformError>("{}: '{}' is an empty Tensor (default-constructed or moved from)", where, shown(name));
  }
}

void fail_name_key(std::string_view key, const char* fault) {
  fail<FileError>("the key '{}' of a map {}", shown(key), fault);
}

}  // namespace stave_detail
