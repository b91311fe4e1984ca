// Reads JSON that may be damaged or hostile, without building a tree of it.
//
// A visitor is told of each value in the order of the text, with its path. Refused, besides what is
// no JSON: text that is not UTF-8, a key that comes twice in one object, values that are nested
// deeper than kMaxJsonDepth. Memory: the keys of the objects that are open, whatever the text.
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

// From an object or array to one of its values.
struct JsonStep {
  bool in_array = false;
  std::string key;   // In an object.
  size_t index = 0;  // In an array.
};

// From the outermost value, whose path is empty.
using JsonPath = std::vector<JsonStep>;

// For people: tensors["fc.weight"].shape[1] as `tensors.fc.weight.shape[1]`.
std::string JsonPathText(const JsonPath& path);

enum class JsonContainer { kObject, kArray };

// Integers that fit are one of the first two: negative or not.
using JsonScalar = std::variant<int64_t, uint64_t, double, bool, std::string, std::nullptr_t>;

// An error ends the walk and is its result. What is handed over is valid during the call.
class JsonVisitor {
 public:
  virtual ~JsonVisitor() = default;
  virtual absl::Status Begin(const JsonPath& path, JsonContainer container) = 0;
  virtual absl::Status Scalar(const JsonPath& path, const JsonScalar& value) = 0;
  virtual absl::Status End(const JsonPath& path, JsonContainer container) = 0;
};

// DataLoss with the offset in `text`, or the path, when it is refused.
absl::Status WalkJson(absl::string_view text, JsonVisitor& visitor);

// Collects values of a walk as JSON in one line without spaces.
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

// A JSON string: quoted and escaped. What is not UTF-8 becomes U+FFFD.
std::string JsonQuoted(absl::string_view text);

// The same value in one line without spaces. Errors as WalkJson.
absl::StatusOr<std::string> CompactJson(absl::string_view text);

}  // namespace paceline

#endif  // COMMON_JSON_JSON_WALK_H_
