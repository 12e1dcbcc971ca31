#include <stave/handlers/observe/html_report.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

#include <stave/core/io/file.h>
#include <stave/core/tensor/fail.h>
#include <stave/handlers/observe/html_record.h>

namespace stave {

using stave_detail::fail;

namespace {

constexpr std::string_view page[] = {
#include "html_report_page.inc"
};
constexpr std::string_view place_of_data = "{{data}}";
static_assert(std::ranges::count_if(page,
                                    [](std::string_view part) { return part.find(place_of_data) != part.npos; }) == 1);

}  // namespace

HtmlReport::HtmlReport(HtmlReportOptions options)
    : options_(std::move(options)), record_(std::make_unique<stave_detail::HtmlRecord>()) {}
HtmlReport::~HtmlReport() = default;

Outputs HtmlReport::handle(Call& call) { return record_->handle(call); }
stave_detail::Sowing::Result HtmlReport::handle(stave_detail::Sowing& sowing) { return record_->handle(sowing); }
std::size_t HtmlReport::operations() const { return record_->operations(); }

void HtmlReport::write_html(std::ostream& out) const {
  write(out);
  if (!out) fail<FileError>("HtmlReport: the stream cannot be written");
}

// If `path` is a regular file or new, the file appears completely or not at all. Other targets,
// such as pipes, are written to directly.
void HtmlReport::write_html(const std::string& path) const {
  std::error_code none;
  if (std::filesystem::is_regular_file(path, none) || !std::filesystem::exists(path, none)) {
    std::ostringstream text;
    write(text);
    try {
      stave_detail::OutputFile file("HtmlReport", path);
      file.write(text.view());
      file.finish();
    } catch (const FileError&) {
      fail<FileError>("HtmlReport: {} cannot be written", path);
    }
  } else {
    std::ofstream file(path, std::ios::binary);
    if (file) write(file);
    if (!file) fail<FileError>("HtmlReport: {} cannot be written", path);
  }
}

void HtmlReport::add(const std::string& title, const NamedTensors& draws, const stave_detail::ChainNotes& notes) {
  record_->add_chains(stave_detail::chains_as_json(title, draws, notes));
}

void HtmlReport::write(std::ostream& out) const {
  for (const std::string_view part : page) {
    const std::size_t at = part.find(place_of_data);
    out << part.substr(0, at);
    if (at == part.npos) continue;
    record_->write_json(out, options_);
    out << part.substr(at + place_of_data.size());
  }
  out << std::flush;
}

}  // namespace stave
