// API messages as JSON, as `-o json` prints them: names as in the .proto files, defaults included,
// and enumerations by their short names (common/job_spec/enum_name.h).
#ifndef CLI_TEXT_MESSAGE_JSON_H_
#define CLI_TEXT_MESSAGE_JSON_H_

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/job_spec/enum_name.h"
#include "common/log.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/type.pb.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/type_resolver.h"
#include "google/protobuf/util/type_resolver_util.h"

namespace paceline {

// Resolves our types, with short names of enumerations.
class ShortNamedTypes : public google::protobuf::util::TypeResolver {
 public:
  static std::string UrlOf(const google::protobuf::Message& message) {
    return absl::StrCat(kPrefix, "/", message.GetDescriptor()->full_name());
  }

  google::protobuf::util::Status ResolveMessageType(const std::string& url,
                                                    google::protobuf::Type* type) override {
    return types_->ResolveMessageType(url, type);
  }

  google::protobuf::util::Status ResolveEnumType(const std::string& url,
                                                 google::protobuf::Enum* type) override {
    auto status = types_->ResolveEnumType(url, type);
    if (!status.ok()) return status;
    const google::protobuf::EnumDescriptor& known = *Pool()->FindEnumTypeByName(type->name());
    for (google::protobuf::EnumValue& value : *type->mutable_enumvalue()) {
      value.set_name(ShortEnumName(known, value.number()));
    }
    return status;
  }

 private:
  // Prefix of protobuf's own types, such as Timestamp, when it parses.
  static constexpr char kPrefix[] = "type.googleapis.com";

  static const google::protobuf::DescriptorPool* Pool() {
    return google::protobuf::DescriptorPool::generated_pool();
  }

  const std::unique_ptr<google::protobuf::util::TypeResolver> types_{
      google::protobuf::util::NewTypeResolverForDescriptorPool(kPrefix, Pool())};
};

// With `spaced` on several lines, else on one line without a newline.
inline std::string MessageAsJson(const google::protobuf::Message& message, bool spaced) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = spaced;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  ShortNamedTypes types;
  std::string text;
  // Only fails for messages that contain an Any, which ours do not.
  const auto status = google::protobuf::util::BinaryToJsonString(
      &types, ShortNamedTypes::UrlOf(message), message.SerializeAsString(), &text, options);
  PACELINE_CHECK(status.ok());
  return text;
}

// Returns false if the text is not such a message.
inline bool MessageFromJson(const std::string& json, google::protobuf::Message* message) {
  ShortNamedTypes types;
  std::string bytes;
  return google::protobuf::util::JsonToBinaryString(&types, ShortNamedTypes::UrlOf(*message), json,
                                                    &bytes)
             .ok() &&
         message->ParseFromString(bytes);
}

}  // namespace paceline

#endif  // CLI_TEXT_MESSAGE_JSON_H_
