// Makes scoped names, and random keys from names.
#include <stave/core/ops/scoped_name.h>

#include <stave/core/effects/scope.h>

namespace stave_detail {

std::string scoped_name(const std::string& name) {
  ScopePathPtr last;
  const ScopePathPtr path = scopes_of_performer(last);
  std::string full;
  if (path)
    for (auto scope = path->names.rbegin(); scope != path->names.rend(); ++scope)
      if (!(*scope)->backward) full += (*scope)->text + "/";
  return full + name;
}

// Hashes the name by FNV-1a (Fowler, Noll, Vo) in 64 bits. Among a thousand names, two share a key
// with a probability of 3e-14.
stave::Key fold_in_name(const stave::Key& key, const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : name) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return fold_in(fold_in(key, static_cast<std::uint32_t>(hash >> 32)), static_cast<std::uint32_t>(hash));
}

}  // namespace stave_detail
