#include "cli/text/yaml_text.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/text/sanitize.h"
#include "yaml-cpp/yaml.h"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;

// Words that YAML 1.1 or 1.2 reads as null or a boolean if they are not quoted.
constexpr const char* kWords[] = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"};

// Whether every YAML reader reads `text` unquoted as this text: words of letters, digits and a few
// marks, beginning with a letter.
bool IsPlain(const std::string& text) {
  const auto usual = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == '/' || c == ' ';
  };
  if (text.empty() || std::isalpha(static_cast<unsigned char>(text[0])) == 0) return false;
  if (!std::all_of(text.begin(), text.end(), usual) || text.back() == ' ') return false;
  return std::none_of(std::begin(kWords), std::end(kWords),
                      [&](const char* word) { return absl::EqualsIgnoreCase(text, word); });
}

void EmitText(const std::string& text, YAML::Emitter* out) {
  if (IsPlain(text)) {
    *out << text;
  } else if (SanitizeLine(text) == text) {
    *out << YAML::DoubleQuoted << text;
  } else {
    *out << YAML::EscapeNonAscii << YAML::DoubleQuoted << text;
  }
}

// YAML 1.1 requires a point in a number with an exponent.
std::string NumberText(std::string number) {
  const size_t exponent = number.find('e');
  if (exponent != std::string::npos && !absl::StrContains(number, '.')) {
    number.insert(exponent, ".0");
  }
  return number;
}

void Emit(const Json& value, YAML::Emitter* out) {
  if (value.is_object()) {
    if (value.empty()) *out << YAML::Flow;
    *out << YAML::BeginMap;
    for (const auto& [key, member] : value.items()) {
      *out << YAML::Key;
      EmitText(key, out);
      *out << YAML::Value;
      Emit(member, out);
    }
    *out << YAML::EndMap;
  } else if (value.is_array()) {
    if (value.empty()) *out << YAML::Flow;
    *out << YAML::BeginSeq;
    for (const Json& element : value) Emit(element, out);
    *out << YAML::EndSeq;
  } else if (value.is_string()) {
    EmitText(value.get<std::string>(), out);
  } else if (value.is_null()) {
    *out << YAML::Null;
  } else if (value.is_boolean()) {
    *out << value.get<bool>();
  } else {
    *out << NumberText(value.dump());
  }
}

}  // namespace

std::string JsonAsYaml(absl::string_view json) {
  YAML::Emitter out;
  out.SetNullFormat(YAML::LowerNull);
  Emit(Json::parse(json.begin(), json.end()), &out);
  return absl::StrCat(out.c_str(), "\n");
}

}  // namespace paceline
