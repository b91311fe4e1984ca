// What proto/job_key.proto says of the fields of a spec: constant defaults, and what values may be
// by themselves.
#ifndef COMMON_JOB_SPEC_JOB_KEY_H_
#define COMMON_JOB_SPEC_JOB_KEY_H_

#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "proto/job_key.pb.h"
#include "proto/job_spec.pb.h"

namespace paceline {

const v1::JobKey& KeyOf(const google::protobuf::FieldDescriptor& field);
const v1::JobKey& KeyOf(const google::protobuf::OneofDescriptor& choice);

// Whether a field of JobSpec may be given in this spec, by what its ranks run.
bool GoesWith(const v1::JobSpec& spec, const v1::JobKey& key);

// Whether the number lies within the key's bounds. Infinite values and NaN lie within none.
bool IsWithin(const v1::JobKey& key, double number);

// "1 to 4096", "0 <= x < 1"; empty: there are none.
std::string BoundsText(const v1::JobKey& key);

// Writes the key's constant default into `message`, of which `field` is one, unless it was given;
// for a group those of its own keys, for a list of groups those of its elements. A group into which
// nothing is written does not come into being.
void FillConstant(const google::protobuf::FieldDescriptor& field,
                  google::protobuf::Message* message);

// Those of all keys of the group.
void FillConstants(google::protobuf::Message* group);

}  // namespace paceline

#endif  // COMMON_JOB_SPEC_JOB_KEY_H_
