#include "common/json/json_walk.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

using Json = nlohmann::json;

// nlohmann's parser calls these functions; false stops it. The library defines their names.
class Walk {
 public:
  explicit Walk(JsonVisitor& visitor) : visitor_(visitor) {}

  const absl::Status& status() const { return status_; }

  // NOLINTBEGIN(readability-identifier-naming)
  bool null() { return Scalar(nullptr); }
  bool boolean(bool value) { return Scalar(value); }
  bool number_integer(int64_t value) { return Scalar(value); }
  bool number_unsigned(uint64_t value) { return Scalar(value); }
  bool number_float(double value, const std::string&) { return Scalar(value); }
  bool string(std::string& value) { return Scalar(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(size_t) { return Begin(JsonContainer::kObject); }
  bool start_array(size_t) { return Begin(JsonContainer::kArray); }
  bool end_object() { return End(JsonContainer::kObject); }
  bool end_array() { return End(JsonContainer::kArray); }

  bool key(std::string& key) {
    JsonStep& step = path_.back();
    step.key = key;
    if (keys_[path_.size() - 1].insert(std::move(key)).second) return true;
    return Failed(absl::DataLossError(absl::StrCat(JsonPathText(path_), ": comes twice")));
  }

  bool parse_error(size_t position, const std::string&, const Json::exception&) {
    return Failed(absl::DataLossError(absl::StrCat("offset ", position, ": no JSON in UTF-8")));
  }
  // NOLINTEND(readability-identifier-naming)

 private:
  bool Failed(absl::Status status) {
    status_ = std::move(status);
    return false;
  }

  bool Scalar(const JsonScalar& value) {
    absl::Status status = visitor_.Scalar(path_, value);
    Next();
    return status.ok() || Failed(std::move(status));
  }

  bool Begin(JsonContainer container) {
    if (path_.size() == kMaxJsonDepth) {
      return Failed(absl::DataLossError(
          absl::StrCat(JsonPathText(path_), ": nested deeper than ", kMaxJsonDepth)));
    }
    if (absl::Status status = visitor_.Begin(path_, container); !status.ok()) {
      return Failed(std::move(status));
    }
    path_.emplace_back();
    path_.back().in_array = container == JsonContainer::kArray;
    if (keys_.size() < path_.size()) keys_.emplace_back();
    keys_[path_.size() - 1].clear();
    return true;
  }

  bool End(JsonContainer container) {
    path_.pop_back();
    absl::Status status = visitor_.End(path_, container);
    Next();
    return status.ok() || Failed(std::move(status));
  }

  void Next() {
    if (!path_.empty()) ++path_.back().index;
  }

  JsonVisitor& visitor_;
  JsonPath path_;
  // Keys of each open object, by depth; the sets are reused.
  std::vector<absl::flat_hash_set<std::string>> keys_;
  absl::Status status_;
};

std::string Text(const JsonScalar& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return JsonQuoted(*text);
  return std::visit([](const auto& held) { return Json(held).dump(); }, value);
}

}  // namespace

std::string JsonPathText(const JsonPath& path) {
  std::string text;
  for (const JsonStep& step : path) {
    if (step.in_array) {
      absl::StrAppend(&text, "[", step.index, "]");
    } else {
      absl::StrAppend(&text, text.empty() ? "" : ".", step.key);
    }
  }
  return text;
}

absl::Status WalkJson(absl::string_view text, JsonVisitor& visitor) {
  // The library would take a zero byte for the end of the text.
  if (const size_t zero = text.find('\0'); zero != absl::string_view::npos) {
    return absl::DataLossError(absl::StrCat("offset ", zero, ": no JSON in UTF-8"));
  }
  Walk walk(visitor);
  Json::sax_parse(text.begin(), text.end(), &walk);
  return walk.status();
}

void JsonCollector::Separate(const JsonPath& path) {
  if (text_.empty()) return;
  if (text_.back() != '{' && text_.back() != '[') text_ += ',';
  if (!path.back().in_array) absl::StrAppend(&text_, JsonQuoted(path.back().key), ":");
}

absl::Status JsonCollector::Begin(const JsonPath& path, JsonContainer container) {
  Separate(path);
  text_ += container == JsonContainer::kObject ? '{' : '[';
  return absl::OkStatus();
}

absl::Status JsonCollector::Scalar(const JsonPath& path, const JsonScalar& value) {
  Separate(path);
  text_ += Text(value);
  return absl::OkStatus();
}

absl::Status JsonCollector::End(const JsonPath&, JsonContainer container) {
  text_ += container == JsonContainer::kObject ? '}' : ']';
  return absl::OkStatus();
}

bool IsUtf8(absl::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::ignore) ==
         JsonQuoted(text);
}

std::string JsonQuoted(absl::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<std::string> CompactJson(absl::string_view text) {
  JsonCollector collector;
  PACELINE_RETURN_IF_ERROR(WalkJson(text, collector));
  return collector.text();
}

}  // namespace paceline
