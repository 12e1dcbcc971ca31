// Reads JSON that tests check.
#pragma once

#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace stave_test {

using Json = nlohmann::json;

/// Throws for text that is not JSON, and for an object with two members of one name.
inline Json parse_json(const std::string& text) {
  std::vector<std::set<std::string>> names;  // of the objects that are open
  return Json::parse(text, [&](int, Json::parse_event_t event, Json& name) {
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    else if (event == Json::parse_event_t::object_end) names.pop_back();
    else if (event == Json::parse_event_t::key && !names.back().insert(name.get<std::string>()).second)
      throw std::invalid_argument("two members have the name " + name.dump());
    return true;
  });
}

}  // namespace stave_test
