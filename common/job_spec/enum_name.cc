#include "common/job_spec/enum_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace paceline {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;

namespace {

// Length of the whole words that all names begin with, each with the underscore behind it.
size_t PrefixLength(const EnumDescriptor& type) {
  absl::string_view common = type.value(0)->name();
  for (int i = 1; i < type.value_count(); ++i) {
    const absl::string_view name = type.value(i)->name();
    const size_t most = std::min(common.size(), name.size());
    common =
        common.substr(0, std::mismatch(common.begin(), common.begin() + most, name.begin()).first -
                             common.begin());
  }
  return common.rfind('_') + 1;  // 0 where there is none.
}

}  // namespace

std::string ShortEnumName(const EnumDescriptor& type, int number) {
  const EnumValueDescriptor* value = type.FindValueByNumber(number);
  if (value == nullptr) return absl::StrCat(number);
  if (absl::EndsWith(value->name(), "_UNSPECIFIED")) return "UNSPECIFIED";
  return value->name().substr(PrefixLength(type));
}

std::string EnumName(const EnumDescriptor& type, int number) {
  return absl::AsciiStrToLower(ShortEnumName(type, number));
}

std::vector<std::string> EnumNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 1; i < type.value_count(); ++i) {
    names.push_back(EnumName(type, type.value(i)->number()));
  }
  return names;
}

}  // namespace paceline
