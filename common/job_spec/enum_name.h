// What people and programs call the values of our enumerations: without the type's name.
#ifndef COMMON_JOB_SPEC_ENUM_NAME_H_
#define COMMON_JOB_SPEC_ENUM_NAME_H_

#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"

namespace paceline {

// NODE_READY is "READY", WIRE_FORMAT_BF16 "BF16", CUDA "CUDA", NODE_STATE_UNSPECIFIED
// "UNSPECIFIED": the words that the names of all of the type's values begin with are left out. A
// number that is none of the type's is itself.
std::string ShortEnumName(const google::protobuf::EnumDescriptor& type, int number);

// The same in lower case.
std::string EnumName(const google::protobuf::EnumDescriptor& type, int number);

// These of all values but number 0, which stands for "not given".
std::vector<std::string> EnumNames(const google::protobuf::EnumDescriptor& type);

}  // namespace paceline

#endif  // COMMON_JOB_SPEC_ENUM_NAME_H_
