// A JSON reader (RFC 8259) for tests that check JSON output.
// Throws std::invalid_argument for text that is not JSON.
#pragma once

#include <cctype>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace stave_test {

struct Json {
  std::string text;  // the value of a string, or "true", "false", "null"
  double number = 0;
  std::vector<Json> items;
  std::map<std::string, Json> members;
  const Json& at(const std::string& name) const { return members.at(name); }
};

class JsonReader {
 public:
  explicit JsonReader(const std::string& text) : text_(text) {}

  Json document() {
    Json value = read();
    space();
    if (at_ != text_.size()) fail("the end");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    throw std::invalid_argument("expected " + expected + " at " + std::to_string(at_) + ": " + text_.substr(at_, 40));
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void space() {
    while (at_ < text_.size() && std::string(" \t\r\n").find(text_[at_]) != std::string::npos) ++at_;
  }
  bool take(char c) {
    space();
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void need(char c) {
    if (!take(c)) fail(std::string(1, c));
  }

  Json read() {
    space();
    Json value;
    if (take('{')) {
      if (take('}')) return value;
      do {
        space();
        const std::string name = string();
        need(':');
        if (!value.members.emplace(name, read()).second) fail("another name than " + name);
      } while (take(','));
      need('}');
    } else if (take('[')) {
      if (take(']')) return value;
      do value.items.push_back(read());
      while (take(','));
      need(']');
    } else if (peek() == '"') {
      value.text = string();
    } else if (std::isdigit(static_cast<unsigned char>(peek())) || peek() == '-') {
      char* end = nullptr;
      // A number that is too large becomes infinite.
      value.number = std::strtod(text_.c_str() + at_, &end);
      at_ = static_cast<std::size_t>(end - text_.c_str());
    } else {
      for (const char* word : {"true", "false", "null"})
        if (text_.compare(at_, std::string(word).size(), word) == 0) {
          at_ += std::string(word).size();
          value.text = word;
          return value;
        }
      fail("a value");
    }
    return value;
  }

  std::string string() {
    if (peek() != '"') fail("a string");
    std::string result;
    for (++at_; peek() != '"'; ++at_) {
      if (at_ >= text_.size() || static_cast<unsigned char>(peek()) < 0x20) fail("a character of a string");
      if (peek() != '\\') {
        result += peek();
        continue;
      }
      ++at_;
      const std::string escapes = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
      if (const std::size_t i = escapes.find(peek()); i != std::string::npos) {
        result += meanings[i];
      } else if (peek() == 'u') {  // only ASCII is supported
        result += static_cast<char>(std::stoi(text_.substr(at_ + 1, 4), nullptr, 16));
        at_ += 4;
      } else {
        fail("an escape");
      }
    }
    ++at_;
    return result;
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

inline Json parse_json(const std::string& text) { return JsonReader(text).document(); }

}  // namespace stave_test
