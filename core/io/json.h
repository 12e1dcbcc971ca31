// JSON from files. For the .cpp files of core/io.
#pragma once

#include <stave/core/effects/settings.h>

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace stave_detail {

using Json = nlohmann::json;

inline constexpr int most_nested = 100;

/// Parses text, which errors call `what` ("the header"). Throws FileError for text that is not
/// JSON, for a name that occurs twice in an object, and for more than `most_nested` levels.
Json parse_json(std::string_view text, const std::string& where, const char* what);

}  // namespace stave_detail
