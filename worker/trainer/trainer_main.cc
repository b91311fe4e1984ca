#include "worker/trainer/trainer_main.h"

#include <ATen/Parallel.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "common/core/status_macros.h"
#include "common/exit_codes.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/generation/control.h"
#include "worker/trainer/loop/built_in_workload.h"
#include "worker/trainer/loop/trainer_run.h"

namespace paceline {
namespace {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "paceline-trainer: %s\n", std::string(status.message()).c_str());
  return kExitFailure;
}

// Trains what the job file describes, to the end. Returns the exit code. Destroys nothing.
int TrainBuiltIn(Control& control, StepRingWriter& ring, Platform& platform,
                 const std::string& directory) {
  TrainerRun& run = *new TrainerRun(control, ring, platform, directory);
  run.Open();
  if (!run.ok()) return run.Finish();
  BuiltInWorkload& workload = *new BuiltInWorkload(run.config(), platform);
  run.Do([&] {
    at::set_num_threads(run.config().threads);
    at::set_num_interop_threads(1);
    return workload.Open(run.device());
  });
  run.Load(workload);
  for (StepOrder order = run.Next(); order.kind != StepOrder::Kind::kDone; order = run.Next()) {
    run.Do([&]() -> absl::Status {
      if (order.kind == StepOrder::Kind::kEvaluate) {
        return workload.Evaluate(order, run.evaluation());
      }
      PACELINE_RETURN_IF_ERROR(workload.MakeStep(order, run.step()));
      run.Updated();
      return run.EndStep();
    });
  }
  return run.Finish();
}

}  // namespace

int TrainerMain(int argc, char** argv, Platform& platform) {
  return TrainerMain(argc, argv, platform, TrainBuiltIn);
}

int TrainerMain(int argc, char** argv, Platform& platform, const Train& train) {
  Control::Options options;
  std::string ring_path;
  double orphan_timeout_s = absl::ToDoubleSeconds(options.orphan_timeout);
  CLI::App app("One rank of a Paceline job. Started by paceline-worker.");
  app.add_option("--dir", options.directory, "Trainer directory, named <job>.<generation>.<rank>")
      ->required();
  app.add_option("--socket", options.socket, "Unix socket of the worker daemon")->required();
  app.add_option("--ring", ring_path, "Step ring, made by the worker daemon")->required();
  app.add_option("--log-segment-bytes", options.log_segment_bytes, "Size of a full log segment")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--orphan-timeout-s", orphan_timeout_s,
                 "Seconds without a daemon after which the trainer ends itself")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  options.orphan_timeout = absl::Seconds(orphan_timeout_s);

  // A dying peer closes its connections: the write then fails, but must not kill this process.
  std::signal(SIGPIPE, SIG_IGN);

  // Each step frees and reallocates the same large blocks: keeping them avoids page faults.
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, -1);

  absl::StatusOr<StepRingWriter> ring = StepRingWriter::Open(ring_path);
  if (!ring.ok()) return Fail(ring.status());
  absl::StatusOr<std::unique_ptr<Control>> control = Control::Start(options);
  if (!control.ok()) return Fail(control.status());
  const int code = train(**control, *ring, platform, options.directory);
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace paceline
