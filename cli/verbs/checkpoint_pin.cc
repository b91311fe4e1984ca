// paceline checkpoint pin|unpin CHECKPOINT
#include <memory>
#include <string>

#include "cli/verbs/checkpoint_place.h"
#include "cli/verbs/verbs.h"
#include "cli/view/checkpoint_text.h"
#include "common/uuid.h"
#include "proto/checkpoint.pb.h"

namespace paceline {
namespace {

struct CheckpointPinFlags {
  std::string checkpoint;
  std::string request_id;
};

int PinCheckpoint(Program& program, const CheckpointPinFlags& flags, bool pinned) {
  const int refused = RefusePath(program, flags.checkpoint);
  if (refused != kCliOk) return refused;
  v1::PinCheckpointRequest request;
  request.set_checkpoint(flags.checkpoint);
  request.set_request_id(flags.request_id.empty() ? NewUuid() : flags.request_id);
  request.set_pinned(pinned);
  v1::Checkpoint checkpoint;
  const grpc::Status status = program.client().PinCheckpoint(request, &checkpoint);
  if (!status.ok()) return program.Fail(status);
  if (program.json()) {
    program.PrintJson(checkpoint);
  } else {
    program.out() << CheckpointNameText(checkpoint)
                  << (checkpoint.pinned() ? " is pinned: it is kept until it is unpinned"
                                          : " is not pinned")
                  << std::endl;
  }
  return kCliOk;
}

void AddVerb(CLI::App& parent, Program& program, bool pinned, const std::string& name,
             const std::string& what) {
  const auto flags = std::make_shared<CheckpointPinFlags>();
  CLI::App* verb = parent.add_subcommand(name, what);
  verb->add_option("CHECKPOINT", flags->checkpoint,
                   "Name JOB/STEP or JOB/STEP.gGENERATION, or JOB for its newest one")
      ->required();
  verb->add_option("--request-id", flags->request_id,
                   "Name of this request, such as a UUID. Default: a new one");
  verb->callback([flags, pinned, &program] {
    program.action = [flags, pinned, &program] { return PinCheckpoint(program, *flags, pinned); };
  });
}

}  // namespace

void AddCheckpointPin(CLI::App& parent, Program& program) {
  AddVerb(parent, program, true, "pin", "Keep a checkpoint, however many follow");
}

void AddCheckpointUnpin(CLI::App& parent, Program& program) {
  AddVerb(parent, program, false, "unpin", "Let a checkpoint that was pinned go in its turn");
}

}  // namespace paceline
