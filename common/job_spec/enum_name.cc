#include "common/job_spec/enum_name.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace paceline {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;

std::string EnumName(const EnumDescriptor& type, int number) {
  const EnumValueDescriptor* value = type.FindValueByNumber(number);
  if (value == nullptr) return absl::StrCat(number);
  absl::string_view name = value->name();
  const EnumValueDescriptor* none = type.FindValueByNumber(0);
  if (none != nullptr) absl::ConsumePrefix(&name, absl::StripSuffix(none->name(), "UNSPECIFIED"));
  return absl::AsciiStrToLower(name);
}

}  // namespace paceline
