#include <stave/core/io/json.h>

#include <set>
#include <string>
#include <vector>

#include <stave/core/io/file.h>

namespace stave_detail {

Json parse_json(std::string_view text, const std::string& where, const char* what) {
  std::vector<std::set<std::string>> names;  // the names in each open object
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > most_nested) fail<FileError>("{}: {} nests more than {} levels", where, what, most_nested);
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key && !names.back().insert(value.get<std::string>()).second)
      fail<FileError>("{}: {} has the name '{}' twice", where, what, shown(value.get_ref<const std::string&>()));
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const Json::exception& error) {
    fail<FileError>("{}: {} is not JSON: {}", where, what, shown(error.what()));
  }
}

}  // namespace stave_detail
