#include <stave/handlers/model/report.h>

#include <iostream>

#include <stave/core/ops/complex.h>
#include <stave/core/ops/create.h>
#include <stave/core/ops/elementwise.h>
#include <stave/core/tensor/fail.h>
#include <stave/core/tensor/print.h>
#include <stave/handlers/model/summary.h>

namespace stave {

using stave_detail::fail;

namespace {

const char* const report_tag = "report";

std::string quoted(const std::string& name) {
  if (name.find_first_of(",\"\n\r") == std::string::npos) return name;
  std::string text = "\"";
  for (const char c : name) text += c == '"' ? "\"\"" : std::string(1, c);
  return text + "\"";
}

// Returns each number as the shortest text that reads back as the same number: "0.1", "1+2j".
std::vector<std::string> numbers_of(const Tensor& x) {
  std::vector<std::string> texts;
  if (is_complex(x.dtype())) {
    const std::vector<std::string> re = numbers_of(real(x)), im = numbers_of(imag(x));
    for (std::size_t i = 0; i < re.size(); ++i)
      texts.push_back(re[i] + (im[i].starts_with('-') ? "" : "+") + im[i] + "j");
    return texts;
  }
  const auto add = [&](const auto& values) {
    for (const auto value : values) texts.push_back(fmt::format("{}", value));
  };
  if (x.dtype() == float64) add(x.to_vector<double>());
  else if (is_float(x.dtype())) add(astype(x, float32).to_vector<float>());
  else if (x.dtype() == uint64) add(x.to_vector<std::uint64_t>());
  else add(astype(x, int64).to_vector<std::int64_t>());
  return texts;
}

}  // namespace

void report(const std::string& name, const Tensor& value) { sow(name, value, report_tag); }

void report(const std::string& name, double value) {
  if (const auto answer = stave_detail::sowing(name, report_tag); !answer.places.empty())
    stave_detail::sow_at(answer, name, tensor(value, float64), report_tag);
}

ReportListener::ReportListener() : SownHandler(report_tag) {}

Tensor ReportListener::sown(const SownValue& sown) {
  if (!sown.again) reported(sown.name, stop_gradient(sown.value));
  return sown.value;
}

PrintReports::PrintReports() : out_(std::cerr) {}

void PrintReports::reported(const std::string& name, const Tensor& value) {
  out_ << name + " " + (value.rank() == 0 ? value.str() : summary_of(value)) + "\n";
}

CsvReports::CsvReports(const std::string& path) : path_(path), file_(path), out_(file_) {
  out_ << "name,count,index,value\n";
  if (!out_) fail<FileError>("CsvReports: {} cannot be written", path);
}

CsvReports::CsvReports(std::ostream& out) : out_(out) { out_ << "name,count,index,value\n"; }

void CsvReports::reported(const std::string& name, const Tensor& value) {
  const std::string begin = fmt::format("{},{},", quoted(name), counts_[name]++);
  const std::vector<std::string> numbers = numbers_of(value);
  std::string lines;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    lines += begin + stave_detail::place_of(static_cast<Index>(i), value.shape(), " ") + "," + numbers[i] + "\n";
  out_ << lines << std::flush;
  if (!out_) fail<FileError>("CsvReports: {} cannot be written", path_.empty() ? "the stream" : path_);
}

}  // namespace stave
