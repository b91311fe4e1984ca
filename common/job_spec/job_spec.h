// What makes a job spec complete and possible, for the CLI and the controller alike: the defaults
// and bounds that proto/job_spec.proto states as options of its fields (proto/job_key.proto), and
// in code the rules and defaults that join several fields.
//
// A field that holds proto3's zero value counts as not given wherever zero is not a value of
// its own (ranks, batch_per_rank, log_every, timeouts, sizes of a llama, enumerations).
#ifndef COMMON_JOB_SPEC_JOB_SPEC_H_
#define COMMON_JOB_SPEC_JOB_SPEC_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/job_spec.pb.h"

namespace paceline {

// A job is kept, shown to each watcher and sent to each of its nodes: it must stay small.
inline constexpr int kMaxSpecBytes = 256 << 10;  // Room for the names of 4096 nodes.
inline constexpr int kMaxSpecText = 4096;        // Bytes of any text; PATH_MAX.
inline constexpr int kMaxSpecItems = 4096;       // Of any list; the most ranks there are.
inline constexpr int kMaxSpecLabels = 64;
inline constexpr size_t kMaxDescription = 1024;  // Bytes.

// Of the code that travels with a job.
inline constexpr int64_t kMaxCodeBytes = 32 << 20;
inline constexpr int kMaxCodeFiles = 20'000;
inline constexpr size_t kMaxCodePart = 512 << 10;  // Of a message.

// One value that cannot be.
struct SpecProblem {
  // Path of the field: "optimizer.learning_rate", "chaos[0].rank". A choice that is missing
  // is named "model.kind".
  std::string field;
  // Which value, why not, and what is allowed: "is 5000; allowed is 1 to 4096".
  std::string message;
};

// Whether Paceline's engine trains: in a trainer of Paceline's, or inside the program of a session.
// A command that is no session has none.
bool HasEngine(const v1::JobSpec& spec);

// Whether some of the data is in object stores (docs/object-stores.md).
bool ReadsObjects(const v1::Data& data);

// Writes the documented default into every field that was not given. Fields without a
// default (name, steps, ...) stay as they are. Doing it twice changes nothing more.
void FillDefaults(v1::JobSpec* spec);

// The same for a ladder that comes by itself.
void FillLadder(google::protobuf::RepeatedPtrField<v1::LadderLevel>* ladder);

// Every problem of the spec, those of single values first; empty when it is sound.
// A spec without its defaults is judged as if they had been filled in. One beyond the sizes above
// is judged by them alone; a problem of the whole has the field "spec".
std::vector<SpecProblem> CheckJobSpec(const v1::JobSpec& spec);

// Of these problems those by size alone. A spec from elsewhere may take much memory, so that is
// asked before it is copied or scanned.
std::vector<SpecProblem> CheckSpecSizes(const v1::JobSpec& spec);

// Problems that a spec without others has under a controller whose node lease is `lease_s` seconds,
// 0: none. Where ranks are replaced, a lease outlasts a collective, and waiting outlasts a lease.
std::vector<SpecProblem> CheckLease(const v1::JobSpec& spec, double lease_s);

// Every problem of a ladder for so many ranks, `shards` of which make a replica of the model; its
// groups are of replicas. `field` is its path: "strategy.hsgd.ladder".
// Stricter than PyTorch's HierarchicalModelAverager, which accepts ladders that never act as
// they read (docs/hsgd.md): whatever that refuses is refused here.
std::vector<SpecProblem> CheckLadder(
    const google::protobuf::RepeatedPtrField<v1::LadderLevel>& ladder, int ranks, int shards,
    const std::string& field);
// What of a sound ladder does not go with the other keys of a job that is to change to it. `spec`:
// the job's, with its strategy as it is now.
std::vector<SpecProblem> CheckLadderFits(
    const google::protobuf::RepeatedPtrField<v1::LadderLevel>& ladder, const v1::JobSpec& spec,
    const std::string& field);

// Whether Paceline sets this variable in the environment of a command's ranks, so that a job may
// not.
bool IsRankVariable(absl::string_view name);

// Samples in a forward pass without which the model may not be able to train: BatchNorm needs two,
// a compiled model all that the job's ranks have.
int LeastSamples(const v1::Model& model);

// Whether each parameter is updated within the backward pass, so that gradients of all parameters
// never exist together: one rank for good, on a CPU, and one pass in a step, in a built-in model,
// and nothing that has to know all gradients first. Requires: the spec has its defaults.
bool UpdatesInBackward(const v1::JobSpec& spec);

// Of code by itself, as it is sent before a job names it.
std::vector<SpecProblem> CheckCode(const v1::Code& code);

// Problems of a spec's labels and description alone, as they may change later.
std::vector<SpecProblem> CheckLabels(const v1::JobSpec& spec);

// The problem, if there is one, of a path that nodes open: it must be absolute, without a part
// "..", and not too long. An empty one has none.
std::vector<SpecProblem> CheckNodePath(const std::string& path, const std::string& field);

}  // namespace paceline

#endif  // COMMON_JOB_SPEC_JOB_SPEC_H_
