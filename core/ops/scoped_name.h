// Names of effects with the scopes around them: an effect named "w" that is performed in
// Scope("layer1") has the name "layer1/w".
#pragma once

#include <cstdint>
#include <string>

#include <stave/core/ops/random.h>

namespace stave_detail {

/// Returns the name of an effect, preceded by the scopes (scope.h) that were entered inside the
/// handler that answers the effect. The parts are joined by "/". In a backward pass the scopes are
/// those of the operation that is differentiated.
std::string scoped_name(const std::string& name);

/// Returns a random key made of a key and a name. Different names give different keys, which are
/// the same on every machine.
stave::Key fold_in_name(const stave::Key& key, const std::string& name);

/// Returns "a, b, c", the keys of a map; "none" if the map is empty.
template <class Map>
std::string listed_keys(const Map& map) {
  std::string list;
  for (const auto& [name, value] : map) list += (list.empty() ? "" : ", ") + name;
  return list.empty() ? "none" : list;
}

}  // namespace stave_detail
