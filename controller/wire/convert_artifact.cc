#include "controller/wire/convert_artifact.h"

#include <string>
#include <utility>

#include "absl/time/time.h"

namespace paceline {

v1::Artifact ToProto(const Artifact& artifact) {
  v1::Artifact out;
  out.set_name(artifact.name);
  out.set_path(artifact.path);
  out.set_directory(artifact.directory);
  out.set_bytes(artifact.bytes);
  out.set_sha256(artifact.sha256);
  out.set_step(artifact.step);
  out.set_time_us(absl::ToUnixMicros(artifact.time));
  out.set_error(artifact.error);
  out.set_rank(artifact.rank.value());
  out.set_node(artifact.node.value());
  return out;
}

std::vector<Artifact> FromProto(const google::protobuf::RepeatedPtrField<v1::Artifact>& artifacts) {
  std::vector<Artifact> out;
  for (const v1::Artifact& artifact : artifacts) {
    out.push_back({artifact.name(), artifact.path(), artifact.directory(), artifact.bytes(),
                   artifact.sha256(), artifact.step(), absl::FromUnixMicros(artifact.time_us()),
                   artifact.error(), Rank(artifact.rank()), NodeName(artifact.node())});
  }
  return out;
}

void SetArtifacts(const JobArtifacts& artifacts, v1::Job& job) {
  for (const auto& [name, artifact] : artifacts.by_name) *job.add_artifacts() = ToProto(artifact);
  job.set_artifacts_left_out(artifacts.left_out);
}

JobArtifacts ArtifactsOf(const v1::Job& job) {
  JobArtifacts out;
  for (Artifact& artifact : FromProto(job.artifacts())) {
    const std::string name = artifact.name;
    out.by_name[name] = std::move(artifact);
  }
  out.left_out = job.artifacts_left_out();
  return out;
}

}  // namespace paceline
