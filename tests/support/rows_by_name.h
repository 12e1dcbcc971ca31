// Reads reference values from files whose lines have the form "name,number,number,...".
#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace stave_test {

/// Maps the name of each line of tests/data/`file` to the line's numbers.
/// Lines that begin with # are comments.
inline std::map<std::string, std::vector<double>> rows_by_name(const std::string& file) {
  std::map<std::string, std::vector<double>> rows;
  std::ifstream lines(STAVE_SOURCE_DIR "/tests/data/" + file);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream cells(line);
    std::string name, cell;
    std::getline(cells, name, ',');
    while (std::getline(cells, cell, ',')) rows[name].push_back(std::stod(cell));
  }
  return rows;
}

}  // namespace stave_test
