// What scripts have made, between the messages of the wire and core.
#ifndef CONTROLLER_WIRE_CONVERT_ARTIFACT_H_
#define CONTROLLER_WIRE_CONVERT_ARTIFACT_H_

#include <google/protobuf/repeated_field.h>

#include <vector>

#include "controller/core/job/artifacts.h"
#include "proto/job.pb.h"
#include "proto/status.pb.h"

namespace paceline {

v1::Artifact ToProto(const Artifact& artifact);
std::vector<Artifact> FromProto(const google::protobuf::RepeatedPtrField<v1::Artifact>& artifacts);

// Those of a job, and what a stored job has.
void SetArtifacts(const JobArtifacts& artifacts, v1::Job& job);
JobArtifacts ArtifactsOf(const v1::Job& job);

}  // namespace paceline

#endif  // CONTROLLER_WIRE_CONVERT_ARTIFACT_H_
