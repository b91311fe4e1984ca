// paceline checkpoint delete CHECKPOINT
#include <memory>
#include <string>

#include "cli/text/neutral.h"
#include "cli/verbs/checkpoint_place.h"
#include "cli/verbs/verbs.h"
#include "cli/view/checkpoint_text.h"
#include "common/uuid.h"
#include "proto/checkpoint.pb.h"

namespace paceline {
namespace {

struct CheckpointDeleteFlags {
  std::string checkpoint;
  std::string request_id;
  bool force = false;
};

int DeleteCheckpoint(Program& program, const CheckpointDeleteFlags& flags) {
  const int refused = RefusePath(program, flags.checkpoint);
  if (refused != kCliOk) return refused;
  v1::DeleteCheckpointRequest request;
  request.set_checkpoint(flags.checkpoint);
  request.set_request_id(flags.request_id.empty() ? NewUuid() : flags.request_id);
  request.set_force(flags.force);
  v1::Checkpoint checkpoint;
  const grpc::Status status = program.client().DeleteCheckpoint(request, &checkpoint);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(checkpoint);
  } else {
    program.out() << CheckpointNameText(checkpoint) << " (" << NeutralLine(checkpoint.directory())
                  << ") is being removed" << std::endl;
  }
  return kCliOk;
}

}  // namespace

void AddCheckpointDelete(CLI::App& parent, Program& program) {
  const auto flags = std::make_shared<CheckpointDeleteFlags>();
  CLI::App* verb = parent.add_subcommand("delete", "Remove a checkpoint and its files");
  verb->add_option("CHECKPOINT", flags->checkpoint,
                   "Name JOB/STEP or JOB/STEP.gGENERATION, or JOB for its newest one")
      ->required();
  verb->add_flag("--force", flags->force, "Also if it is the newest complete one of its job");
  verb->add_option("--request-id", flags->request_id,
                   "Name of this request, such as a UUID. Default: a new one");
  verb->callback([flags, &program] {
    program.action = [flags, &program] { return DeleteCheckpoint(program, *flags); };
  });
}

}  // namespace paceline
