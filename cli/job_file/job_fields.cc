#include "cli/job_file/job_fields.h"

#include "common/job_spec/enum_name.h"
#include "common/job_spec/job_key.h"

namespace paceline {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;

const std::string& KeyName(const FieldDescriptor& field) {
  const std::string& other = KeyOf(field).list_form_of();
  return other.empty() ? field.name() : other;
}

const FieldDescriptor* ListFormOf(const FieldDescriptor& field) {
  const Descriptor* group = field.containing_type();
  for (int i = 0; i < group->field_count(); ++i) {
    if (KeyOf(*group->field(i)).list_form_of() == field.name()) return group->field(i);
  }
  return nullptr;
}

const std::string& KeyField::name() const {
  return choice != nullptr ? choice->name() : KeyName(*field);
}

const OneofDescriptor* ChoiceOf(const Descriptor& group) { return group.FindOneofByName("kind"); }

std::vector<KeyField> KeyFields(const Descriptor& group) {
  std::vector<KeyField> keys;
  const OneofDescriptor* choice = ChoiceOf(group);
  if (choice != nullptr) keys.push_back({nullptr, nullptr, choice});
  for (int i = 0; i < group.field_count(); ++i) {
    const FieldDescriptor* field = group.field(i);
    if (choice == nullptr || field->containing_oneof() != choice) {
      keys.push_back({field, nullptr, nullptr});
    }
  }
  for (int m = 0; choice != nullptr && m < choice->field_count(); ++m) {
    const FieldDescriptor* member = choice->field(m);
    for (int i = 0; i < member->message_type()->field_count(); ++i) {
      keys.push_back({member->message_type()->field(i), member, nullptr});
    }
  }
  return keys;
}

KeyField FindKeyField(const Descriptor& group, const std::string& key) {
  for (const KeyField& found : KeyFields(group)) {
    if (found.name() == key) return found;
  }
  return {};
}

KeyField FindKeyField(const Message& group, const std::string& key) {
  const FieldDescriptor* chosen = ChosenMember(group);
  KeyField other;
  for (const KeyField& found : KeyFields(*group.GetDescriptor())) {
    if (found.name() != key) continue;
    if (found.member == nullptr || found.member == chosen) return found;
    if (other.member == nullptr) other = found;
  }
  return other;
}

const FieldDescriptor* ChosenMember(const Message& group) {
  const OneofDescriptor* choice = ChoiceOf(*group.GetDescriptor());
  if (choice == nullptr) return nullptr;
  return group.GetReflection()->GetOneofFieldDescriptor(group, choice);
}

std::vector<std::string> AllowedNames(const KeyField& key) {
  std::vector<std::string> names;
  if (key.choice != nullptr) {
    for (int i = 0; i < key.choice->field_count(); ++i) {
      names.push_back(key.choice->field(i)->name());
    }
  } else if (key.field != nullptr && key.field->enum_type() != nullptr) {
    names = EnumNames(*key.field->enum_type());
  }
  return names;
}

}  // namespace paceline
