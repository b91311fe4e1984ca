// Messages of the API as JSON, as `-o json` prints them: the names of the .proto files, defaults
// written out, enumerations by their short names (common/job_spec/enum_name.h).
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

// Our types, with the short names of enumerations.
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
  // By which protobuf knows its own types, such as Timestamp, when it reads.
  static constexpr char kPrefix[] = "type.googleapis.com";

  static const google::protobuf::DescriptorPool* Pool() {
    return google::protobuf::DescriptorPool::generated_pool();
  }

  const std::unique_ptr<google::protobuf::util::TypeResolver> types_{
      google::protobuf::util::NewTypeResolverForDescriptorPool(kPrefix, Pool())};
};

// On lines of its own, with `spaced`, or on one without a newline.
inline std::string MessageAsJson(const google::protobuf::Message& message, bool spaced) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = spaced;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  ShortNamedTypes types;
  std::string text;
  // Fails only for messages that hold an Any, which ours do not.
  const auto status = google::protobuf::util::BinaryToJsonString(
      &types, ShortNamedTypes::UrlOf(message), message.SerializeAsString(), &text, options);
  PACELINE_CHECK(status.ok());
  return text;
}

// False when the text is no such message.
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
