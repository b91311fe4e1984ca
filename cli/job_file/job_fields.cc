#include "cli/job_file/job_fields.h"

#include "common/job_spec/enum_name.h"

namespace paceline {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;

const OneofDescriptor* ChoiceOf(const Descriptor& group) { return group.FindOneofByName("kind"); }

KeyField FindKeyField(const Descriptor& group, const std::string& key) {
  KeyField found;
  const OneofDescriptor* choice = ChoiceOf(group);
  const FieldDescriptor* direct = group.FindFieldByName(key);
  if (direct != nullptr && (choice == nullptr || direct->containing_oneof() != choice)) {
    found.field = direct;
    return found;
  }
  if (choice == nullptr) return found;
  if (key == choice->name()) {
    found.choice = choice;
    return found;
  }
  for (int i = 0; i < choice->field_count(); ++i) {
    const FieldDescriptor* member = choice->field(i);
    const FieldDescriptor* field = member->message_type()->FindFieldByName(key);
    if (field == nullptr) continue;
    found.field = field;
    found.member = member;
  }
  return found;
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
    const EnumDescriptor* type = key.field->enum_type();
    // Number 0 stands for "not given".
    for (int i = 1; i < type->value_count(); ++i) {
      names.push_back(EnumName(*type, type->value(i)->number()));
    }
  }
  return names;
}

}  // namespace paceline
