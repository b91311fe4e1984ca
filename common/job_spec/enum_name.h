// What people call the values of our enumerations: in lower case, without the type's name.
#ifndef COMMON_JOB_SPEC_ENUM_NAME_H_
#define COMMON_JOB_SPEC_ENUM_NAME_H_

#include <string>

#include "google/protobuf/descriptor.h"

namespace paceline {

// WIRE_FORMAT_BF16 is "bf16", CPU "cpu": the prefix is that of the value ..._UNSPECIFIED with
// number 0. A number that is none of the type's is itself.
std::string EnumName(const google::protobuf::EnumDescriptor& type, int number);

}  // namespace paceline

#endif  // COMMON_JOB_SPEC_ENUM_NAME_H_
