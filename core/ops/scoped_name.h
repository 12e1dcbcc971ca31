// Names as the effects of a library have them: "layer1/w" is w, performed in Scope("layer1").
#pragma once

#include <cstdint>
#include <string>

#include <stave/core/ops/random.h>

namespace stave_detail {

/// For a handler that is answering: the scopes (scope.h) entered since it was installed, and the name, joined by "/". In a backward
/// pass the scopes are those of the operation that is differentiated.
std::string scoped_name(const std::string& name);

/// The key of a name: another one for each, the same on every machine.
stave::Key fold_in_name(const stave::Key& key, const std::string& name);

/// "a, b, c" of the keys of a map; "none" if it is empty.
template <class Map>
std::string listed_keys(const Map& map) {
  std::string list;
  for (const auto& [name, value] : map) list += (list.empty() ? "" : ", ") + name;
  return list.empty() ? "none" : list;
}

}  // namespace stave_detail
