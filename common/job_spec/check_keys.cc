// What each value may be by itself (proto/job_key.proto).
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/core/object_url.h"
#include "common/job_spec/enum_name.h"
#include "common/job_spec/job_key.h"
#include "common/job_spec/problem_list.h"

namespace paceline {
namespace {

using absl::StrCat;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

template <typename Number>
void CheckNumber(const std::string& name, Number number, const v1::JobKey& key,
                 ProblemList& problems) {
  const std::string bounds = BoundsText(key);
  if (bounds.empty() || IsWithin(key, static_cast<double>(number))) return;
  problems.Add(name, StrCat("is ", number, "; allowed is ", bounds));
}

void CheckEnum(const std::string& name, int value, const EnumDescriptor& type,
               ProblemList& problems) {
  if (type.FindValueByNumber(value) != nullptr) return;
  problems.Add(name, StrCat("is the unknown number ", value, "; allowed is ",
                            absl::StrJoin(EnumNames(type), ", ")));
}

// A path, or the address of an object where the key allows that. An address is not repeated: what
// is wrong about it may be a secret in it.
void CheckPlace(const std::string& name, const std::string& value, const v1::JobKey& key,
                ProblemList& problems) {
  if (!IsObjectUrl(value)) return CheckPath(name, value, problems);
  if (!key.object()) {
    return problems.Add(name,
                        "is an address; only the files of data.train and data.eval may be in "
                        "stores (docs/object-stores.md), so give a path of the nodes");
  }
  const absl::Status status = ParseObjectUrl(value).status();
  if (!status.ok()) problems.Add(name, std::string(status.message()));
}

void CheckOne(const Message& message, const FieldDescriptor& field, const std::string& name,
              ProblemList& problems) {
  const auto* reflection = message.GetReflection();
  const v1::JobKey& key = KeyOf(field);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return CheckKeys(reflection->GetMessage(message, &field), StrCat(name, "."), problems);
    case FieldDescriptor::CPPTYPE_INT32:
      return CheckNumber(name, reflection->GetInt32(message, &field), key, problems);
    case FieldDescriptor::CPPTYPE_INT64:
      return CheckNumber(name, reflection->GetInt64(message, &field), key, problems);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return CheckNumber(name, reflection->GetDouble(message, &field), key, problems);
    case FieldDescriptor::CPPTYPE_ENUM:
      return CheckEnum(name, reflection->GetEnumValue(message, &field), *field.enum_type(),
                       problems);
    case FieldDescriptor::CPPTYPE_STRING:
      if (key.path()) CheckPlace(name, reflection->GetString(message, &field), key, problems);
      return;
    default:
      return;
  }
}

// Groups and whole numbers; texts of lists have no rules of this kind.
void CheckElement(const Message& message, const FieldDescriptor& field, int i,
                  const std::string& name, ProblemList& problems) {
  const auto* reflection = message.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    CheckKeys(reflection->GetRepeatedMessage(message, &field, i), StrCat(name, "."), problems);
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
    CheckNumber(name, reflection->GetRepeatedInt64(message, &field, i), KeyOf(field), problems);
  }
}

}  // namespace

void CheckKeys(const Message& group, const std::string& path, ProblemList& problems) {
  std::vector<const FieldDescriptor*> given;
  group.GetReflection()->ListFields(group, &given);
  for (const FieldDescriptor* field : given) {
    const std::string name = StrCat(path, field->name());
    if (field->is_map() || problems.Tells(name)) continue;
    if (!field->is_repeated()) {
      CheckOne(group, *field, name, problems);
      continue;
    }
    for (int i = 0; i < group.GetReflection()->FieldSize(group, field); ++i) {
      CheckElement(group, *field, i, StrCat(name, "[", i, "]"), problems);
    }
  }
}

}  // namespace paceline
