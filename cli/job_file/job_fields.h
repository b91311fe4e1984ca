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

  const std::string& name() const;
};

// The key of a field by itself: its name, or that of the field whose list it is.
const std::string& KeyName(const google::protobuf::FieldDescriptor& field);

// The list of groups that may be written in the place of the field's value; null: none.
const google::protobuf::FieldDescriptor* ListFormOf(const google::protobuf::FieldDescriptor& field);

// Of all keys of the group: its choice, its own fields, those of the choice's members.
std::vector<KeyField> KeyFields(const google::protobuf::Descriptor& group);

// Of a key with two forms, that of a single value.
KeyField FindKeyField(const google::protobuf::Descriptor& group, const std::string& key);

// The same in this group: of a key that several members of its choice have, that of the chosen one.
KeyField FindKeyField(const google::protobuf::Message& group, const std::string& key);

// The choice of a group, or null.
const google::protobuf::OneofDescriptor* ChoiceOf(const google::protobuf::Descriptor& group);

// The member that is set, or null.
const google::protobuf::FieldDescriptor* ChosenMember(const google::protobuf::Message& group);

// What an enumeration's key, or the key of a choice, may be: lower-case names.
std::vector<std::string> AllowedNames(const KeyField& key);

}  // namespace paceline

#endif  // CLI_JOB_FILE_JOB_FIELDS_H_
