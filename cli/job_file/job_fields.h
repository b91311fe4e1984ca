// How the keys of a job file's group lie in the fields of its message.
//
// A message with a oneof named `kind` shows its members' fields as if they were its own:
// Optimizer{sgd{momentum}} has the key momentum, and the key kind with the value sgd.
#ifndef CLI_JOB_FILE_JOB_FIELDS_H_
#define CLI_JOB_FILE_JOB_FIELDS_H_

#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace paceline {

struct KeyField {
  // The field that holds the value; null for the key `kind` of a choice, and for no key.
  const google::protobuf::FieldDescriptor* field = nullptr;
  // The member of the choice that the field belongs to; null when it lies in the group itself.
  const google::protobuf::FieldDescriptor* member = nullptr;
  // The choice itself, for its key `kind`.
  const google::protobuf::OneofDescriptor* choice = nullptr;

  const std::string& name() const { return choice != nullptr ? choice->name() : field->name(); }
};

// Of all keys of the group: its choice, its own fields, those of the choice's members.
std::vector<KeyField> KeyFields(const google::protobuf::Descriptor& group);

KeyField FindKeyField(const google::protobuf::Descriptor& group, const std::string& key);

// The choice of a group, or null.
const google::protobuf::OneofDescriptor* ChoiceOf(const google::protobuf::Descriptor& group);

// The member that is set, or null.
const google::protobuf::FieldDescriptor* ChosenMember(const google::protobuf::Message& group);

// What an enumeration's key, or the key of a choice, may be: lower-case names.
std::vector<std::string> AllowedNames(const KeyField& key);

}  // namespace paceline

#endif  // CLI_JOB_FILE_JOB_FIELDS_H_
