#include "common/job_spec/job_key.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/job_spec/job_spec.h"

namespace paceline {

using absl::StrCat;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;

namespace {

// `text` is of the field's type, else this throws.
void SetFromText(const FieldDescriptor& field, const std::string& text, Message* message) {
  const auto* reflection = message->GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->SetString(message, &field, text);
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->SetInt32(message, &field, std::stoi(text));
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection->SetInt64(message, &field, std::stoll(text));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection->SetDouble(message, &field, std::stod(text));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->SetBool(message, &field, text == "true");
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->SetEnum(message, &field, field.enum_type()->FindValueByName(text));
    default:
      return;
  }
}

}  // namespace

const v1::JobKey& KeyOf(const FieldDescriptor& field) {
  return field.options().GetExtension(v1::job_key);
}

const v1::JobKey& KeyOf(const OneofDescriptor& choice) {
  return choice.options().GetExtension(v1::job_choice);
}

bool GoesWith(const v1::JobSpec& spec, const v1::JobKey& key) {
  switch (key.scope()) {
    case v1::JobKey::ALL:
      return true;
    case v1::JobKey::ENGINE:
      return HasEngine(spec);
    case v1::JobKey::COMMAND:
      return !spec.command().empty();
    case v1::JobKey::SCRIPT:
      return !HasEngine(spec);
    default:
      return spec.command().empty();
  }
}

bool IsWithin(const v1::JobKey& key, double number) {
  return std::isfinite(number) && (!key.has_min() || number >= static_cast<double>(key.min())) &&
         (!key.has_max() || number <= static_cast<double>(key.max())) &&
         (!key.has_above() || number > static_cast<double>(key.above())) &&
         (!key.has_below() || number < static_cast<double>(key.below()));
}

std::string BoundsText(const v1::JobKey& key) {
  const bool low = key.has_min() || key.has_above();
  const bool high = key.has_max() || key.has_below();
  if (key.has_min() && key.has_max()) return StrCat(key.min(), " to ", key.max());
  if (low && high) {
    return StrCat(key.has_min() ? StrCat(key.min(), " <= ") : StrCat(key.above(), " < "), "x",
                  key.has_max() ? StrCat(" <= ", key.max()) : StrCat(" < ", key.below()));
  }
  if (key.has_min()) return StrCat(key.min(), " and more");
  if (key.has_above()) return StrCat("more than ", key.above());
  return "";
}

void FillConstant(const FieldDescriptor& field, Message* message) {
  const auto* reflection = message->GetReflection();
  if (field.is_map()) return;
  if (field.is_repeated()) {
    if (field.message_type() == nullptr) return;
    for (int i = 0; i < reflection->FieldSize(*message, &field); ++i) {
      FillConstants(reflection->MutableRepeatedMessage(message, &field, i));
    }
    return;
  }
  const bool given = reflection->HasField(*message, &field);
  if (field.message_type() == nullptr) {
    const std::string& text = KeyOf(field).default_();
    if (!given && !text.empty()) SetFromText(field, text, message);
    return;
  }
  // A member of a choice that is not chosen.
  if (!given && field.real_containing_oneof() != nullptr) return;
  Message* group = reflection->MutableMessage(message, &field);
  FillConstants(group);
  if (!given && group->ByteSizeLong() == 0) reflection->ClearField(message, &field);
}

void FillConstants(Message* group) {
  const auto* type = group->GetDescriptor();
  const auto* reflection = group->GetReflection();
  for (int i = 0; i < type->real_oneof_decl_count(); ++i) {
    const OneofDescriptor* choice = type->oneof_decl(i);
    const std::string& member = KeyOf(*choice).default_();
    if (member.empty() || reflection->HasOneof(*group, choice)) continue;
    reflection->MutableMessage(group, type->FindFieldByName(member));
  }
  for (int i = 0; i < type->field_count(); ++i) FillConstant(*type->field(i), group);
}

}  // namespace paceline
