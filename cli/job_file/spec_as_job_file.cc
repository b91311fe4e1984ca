#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "cli/job_file/job_fields.h"
#include "cli/job_file/job_file.h"
#include "cli/job_file/job_keys.h"
#include "common/job_spec/enum_name.h"
#include "common/job_spec/job_spec.h"
#include "google/protobuf/util/message_differencer.h"
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
             ShownKeys shown, YAML::Emitter* out);

void EmitGroup(const Message& group, const std::string& path, ShownKeys shown, YAML::Emitter* out) {
  *out << YAML::BeginMap;
  for (const std::string& name : KeysBelow(path)) EmitKey(group, path, name, shown, out);
  *out << YAML::EndMap;
}

// True when some key of the group has something to say.
bool HasKeys(const Message& group, const std::string& path, ShownKeys shown) {
  if (shown == ShownKeys::kAll) {
    std::vector<const FieldDescriptor*> fields;
    group.GetReflection()->ListFields(group, &fields);
    return !fields.empty();
  }
  YAML::Emitter keys;
  EmitGroup(group, path, shown, &keys);
  return absl::string_view(keys.c_str()) != "{}";
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

void EmitList(const Message& holder, const FieldDescriptor& field, const std::string& path,
              ShownKeys shown, YAML::Emitter* out) {
  const auto* reflection = holder.GetReflection();
  if (field.message_type() == nullptr) *out << YAML::Flow;
  *out << YAML::BeginSeq;
  for (int i = 0; i < reflection->FieldSize(holder, &field); ++i) {
    if (field.message_type() != nullptr) {
      EmitGroup(reflection->GetRepeatedMessage(holder, &field, i), path + "[]", shown, out);
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      *out << reflection->GetRepeatedString(holder, &field, i);
    } else {
      *out << reflection->GetRepeatedInt64(holder, &field, i);
    }
  }
  *out << YAML::EndSeq;
}

void EmitKey(const Message& group, const std::string& path, const std::string& name,
             ShownKeys shown, YAML::Emitter* out) {
  const KeyField key = FindKeyField(group, name);
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
  const FieldDescriptor* list = key.field->is_repeated() ? key.field : ListFormOf(*key.field);
  if (list != nullptr && reflection->FieldSize(holder, list) > 0) {
    *out << YAML::Key << name << YAML::Value;
    return EmitList(holder, *list, full, shown, out);
  }
  if (key.field->is_repeated()) return;
  if (key.field->message_type() != nullptr) {
    const Message& below = reflection->GetMessage(holder, key.field);
    if (!HasKeys(below, full, shown)) return;
    *out << YAML::Key << name << YAML::Value;
    EmitGroup(below, full, shown, out);
    return;
  }
  if (IsNotGiven(holder, *key.field, *FindJobKey(full))) return;
  if (shown == ShownKeys::kGiven && !reflection->HasField(holder, key.field)) return;
  *out << YAML::Key << name << YAML::Value;
  EmitValue(holder, *key.field, out);
}

// Clears each field of `part`, which is of `spec`, that its default makes what it is in `full`.
void ClearDefaults(const v1::JobSpec& full, v1::JobSpec* spec, Message* part) {
  const auto* reflection = part->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(*part, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->message_type() != nullptr && !field->is_repeated()) {
      ClearDefaults(full, spec, reflection->MutableMessage(part, field));
    }
    const std::unique_ptr<Message> before(part->New());
    before->CopyFrom(*part);
    reflection->ClearField(part, field);
    v1::JobSpec filled = *spec;
    FillDefaults(&filled);
    if (!google::protobuf::util::MessageDifferencer::Equals(filled, full)) part->CopyFrom(*before);
  }
}

v1::JobSpec WithoutDefaults(const v1::JobSpec& spec) {
  v1::JobSpec full = spec;
  FillDefaults(&full);
  v1::JobSpec given = full;
  ClearDefaults(full, &given, &given);
  return given;
}

}  // namespace

std::string SpecAsJobFile(const v1::JobSpec& spec, ShownKeys shown) {
  YAML::Emitter out;
  EmitGroup(shown == ShownKeys::kGiven ? WithoutDefaults(spec) : spec, "", shown, &out);
  return std::string(out.c_str()) + "\n";
}

}  // namespace paceline
