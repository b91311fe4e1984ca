#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "cli/job_file/job_fields.h"
#include "cli/job_file/job_file.h"
#include "cli/job_file/job_keys.h"
#include "common/job_spec/enum_name.h"
#include "yaml-cpp/yaml.h"

namespace paceline {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The shortest text that reads back as the same number.
std::string NumberText(double number) {
  for (int digits = 6; digits < 17; ++digits) {
    const std::string text = absl::StrFormat("%.*g", digits, number);
    if (std::strtod(text.c_str(), nullptr) == number) return text;
  }
  return absl::StrFormat("%.17g", number);
}

void EmitValue(const Message& holder, const FieldDescriptor& field, YAML::Emitter* out) {
  const auto* reflection = holder.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      *out << reflection->GetString(holder, &field);
      return;
    case FieldDescriptor::CPPTYPE_INT32:
      *out << reflection->GetInt32(holder, &field);
      return;
    case FieldDescriptor::CPPTYPE_INT64:
      *out << reflection->GetInt64(holder, &field);
      return;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      *out << NumberText(reflection->GetDouble(holder, &field));
      return;
    case FieldDescriptor::CPPTYPE_BOOL:
      *out << reflection->GetBool(holder, &field);
      return;
    case FieldDescriptor::CPPTYPE_ENUM:
      *out << EnumName(*field.enum_type(), reflection->GetEnumValue(holder, &field));
      return;
    default:
      return;
  }
}

// True for what the key may not say: a value that is unset, an empty text, an enumeration's
// number 0, and a 0 that stands for a value that was not given.
bool IsNotGiven(const Message& holder, const FieldDescriptor& field, const JobKey& key) {
  const auto* reflection = holder.GetReflection();
  if (field.has_presence() && !reflection->HasField(holder, &field)) return true;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->GetString(holder, &field).empty();
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->GetEnumValue(holder, &field) == 0;
    case FieldDescriptor::CPPTYPE_INT32:
      return key.no_zero && reflection->GetInt32(holder, &field) == 0;
    case FieldDescriptor::CPPTYPE_INT64:
      return key.no_zero && reflection->GetInt64(holder, &field) == 0;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return key.no_zero && reflection->GetDouble(holder, &field) == 0;
    default:
      return false;
  }
}

void EmitKey(const Message& group, const std::string& path, const std::string& name,
             YAML::Emitter* out);

void EmitGroup(const Message& group, const std::string& path, YAML::Emitter* out) {
  *out << YAML::BeginMap;
  for (const std::string& name : KeysBelow(path)) EmitKey(group, path, name, out);
  *out << YAML::EndMap;
}

// True when some key of the group has something to say.
bool HasKeys(const Message& group) {
  std::vector<const FieldDescriptor*> fields;
  group.GetReflection()->ListFields(group, &fields);
  return !fields.empty();
}

void EmitLabels(const Message& holder, const FieldDescriptor& field, const std::string& name,
                YAML::Emitter* out) {
  std::map<std::string, std::string> labels;
  for (int i = 0; i < holder.GetReflection()->FieldSize(holder, &field); ++i) {
    const Message& entry = holder.GetReflection()->GetRepeatedMessage(holder, &field, i);
    const auto* type = field.message_type();
    labels[entry.GetReflection()->GetString(entry, type->FindFieldByName("key"))] =
        entry.GetReflection()->GetString(entry, type->FindFieldByName("value"));
  }
  if (labels.empty()) return;
  *out << YAML::Key << name << YAML::Value << YAML::Flow << labels;
}

void EmitKey(const Message& group, const std::string& path, const std::string& name,
             YAML::Emitter* out) {
  const KeyField key = FindKeyField(*group.GetDescriptor(), name);
  const std::string full = path.empty() ? name : path + "." + name;
  const FieldDescriptor* chosen = ChosenMember(group);
  if (key.choice != nullptr) {
    if (chosen != nullptr) *out << YAML::Key << name << YAML::Value << chosen->name();
    return;
  }
  if (key.member != nullptr && key.member != chosen) return;
  const Message& holder =
      key.member == nullptr ? group : group.GetReflection()->GetMessage(group, chosen);
  const auto* reflection = holder.GetReflection();
  if (key.field->is_map()) return EmitLabels(holder, *key.field, name, out);
  if (key.field->is_repeated()) {
    const int count = reflection->FieldSize(holder, key.field);
    if (count == 0) return;
    *out << YAML::Key << key.field->name() << YAML::Value;
    if (key.field->message_type() == nullptr) *out << YAML::Flow;
    *out << YAML::BeginSeq;
    for (int i = 0; i < count; ++i) {
      if (key.field->message_type() != nullptr) {
        EmitGroup(reflection->GetRepeatedMessage(holder, key.field, i), full + "[]", out);
      } else if (key.field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        *out << reflection->GetRepeatedString(holder, key.field, i);
      } else {
        *out << reflection->GetRepeatedInt64(holder, key.field, i);
      }
    }
    *out << YAML::EndSeq;
    return;
  }
  if (key.field->message_type() != nullptr) {
    const Message& below = reflection->GetMessage(holder, key.field);
    if (!HasKeys(below)) return;
    *out << YAML::Key << name << YAML::Value;
    EmitGroup(below, full, out);
    return;
  }
  if (IsNotGiven(holder, *key.field, *FindJobKey(full))) return;
  *out << YAML::Key << name << YAML::Value;
  EmitValue(holder, *key.field, out);
}

}  // namespace

std::string SpecAsJobFile(const v1::JobSpec& spec) {
  YAML::Emitter out;
  EmitGroup(spec, "", &out);
  return std::string(out.c_str()) + "\n";
}

}  // namespace paceline
