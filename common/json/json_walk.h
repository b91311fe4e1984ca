// Reads possibly damaged or hostile JSON without building a tree.
//
// A visitor gets each value, with its path, in the order of the text. Besides invalid JSON, these
// are refused: text that is not UTF-8, a key that occurs twice in an object, and nesting deeper
// than kMaxJsonDepth. Memory is limited to the keys of the open objects.
#ifndef COMMON_JSON_JSON_WALK_H_
#define COMMON_JSON_JSON_WALK_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline {

inline constexpr size_t kMaxJsonDepth = 32;

// A step from an object or array to one of its values.
struct JsonStep {
  bool in_array = false;
  std::string key;   // For an object.
  size_t index = 0;  // For an array.
};

// A path from the outermost value, which has an empty path.
using JsonPath = std::vector<JsonStep>;

// For people: formats tensors["fc.weight"].shape[1] as `tensors.fc.weight.shape[1]`.
std::string JsonPathText(const JsonPath& path);

enum class JsonContainer { kObject, kArray };

// An integer that fits is int64_t if negative, otherwise uint64_t.
using JsonScalar = std::variant<int64_t, uint64_t, double, bool, std::string, std::nullptr_t>;

// An error ends the walk and becomes its result. Arguments are only valid during the call.
class JsonVisitor {
 public:
  virtual ~JsonVisitor() = default;
  virtual absl::Status Begin(const JsonPath& path, JsonContainer container) = 0;
  virtual absl::Status Scalar(const JsonPath& path, const JsonScalar& value) = 0;
  virtual absl::Status End(const JsonPath& path, JsonContainer container) = 0;
};

// DataLoss, with the offset in `text` or the path, when the text is refused.
absl::Status WalkJson(absl::string_view text, JsonVisitor& visitor);

// Collects values of a walk as one line of JSON without spaces.
class JsonCollector : public JsonVisitor {
 public:
  absl::Status Begin(const JsonPath& path, JsonContainer container) override;
  absl::Status Scalar(const JsonPath& path, const JsonScalar& value) override;
  absl::Status End(const JsonPath& path, JsonContainer container) override;

  const std::string& text() const { return text_; }

 private:
  void Separate(const JsonPath& path);

  std::string text_;
};

bool IsUtf8(absl::string_view text);

// A quoted and escaped JSON string. Bytes that are not UTF-8 become U+FFFD.
std::string JsonQuoted(absl::string_view text);

// Rewrites the value on one line without spaces. Errors as for WalkJson.
absl::StatusOr<std::string> CompactJson(absl::string_view text);

}  // namespace paceline

#endif  // COMMON_JSON_JSON_WALK_H_
