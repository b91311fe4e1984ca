// Traces some steps on request, in Chrome's format (for Perfetto and chrome://tracing).
//
// The control delivers requests. The trace of a step, marked ProfilerStep#<step> as PyTorch's own,
// has the step's phases, by their names in the step ring, the CPU's operators and, with CUDA, the
// kernels; where an interpreter makes the steps, its functions too. A separate thread writes it,
// since that takes longer than a step. The control gets the result, or the reason why there is
// none.
#ifndef WORKER_TRAINER_TELEMETRY_PROFILER_H_
#define WORKER_TRAINER_TELEMETRY_PROFILER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "worker/trainer/config.h"
#include "worker/trainer/report/figures.h"
#include "worker/trainer/telemetry/step_timer.h"

namespace at {
struct RecordFunction;
}  // namespace at

namespace torch::autograd::profiler {
struct ProfilerResult;
}  // namespace torch::autograd::profiler

namespace paceline {

// Python, where a script makes the steps. Called on the training's thread alone.
class Interpreter {
 public:
  virtual ~Interpreter() = default;

  // Why its functions cannot be traced now, for people: something of the script's own traces
  // already. Empty: they can.
  virtual std::string WhyNotTraced() = 0;
  // Does `part` while this thread has the interpreter. Torch's Kineto begins and ends traces of its
  // functions only so. Exceptions pass through.
  virtual void Do(const std::function<void()>& part) = 0;
};

// Thread-compatible. A failure of the profiler gives a result without a trace, not an error.
class Profiler {
 public:
  struct Options {
    std::string directory;  // Gets <request id>/rank<r>.trace.json; created if needed.
    int rank = 0;
    bool cuda = false;
    // Step numbers are the job's and each rank has its own pace (Slipstream): a late request is
    // served at the next step.
    bool own_pace = false;
    StepTimer* timer = nullptr;          // Of the steps; must outlive this.
    Interpreter* interpreter = nullptr;  // Null: compiled code makes the steps.
    // Newest request that was dealt with, by this profiler or one before; must outlive this.
    int64_t* answered = nullptr;
    // Begins to record allocations; the other one writes the record to a file and stops.
    std::function<void()> start_memory;
    std::function<absl::Status(const std::string& path)> write_memory;
    std::function<void(const ProfileResult&)> on_result;  // Any thread.
  };

  explicit Profiler(Options options);
  // Waits until a trace is written. Requires: Finish, if a trace is running.
  ~Profiler();

  // Call before each step with the newest request. Each request is served once, from its first step
  // on, or from the next one if step numbers have a gap. A late request fails, unless `own_pace`.
  void BeforeStep(const ProfileRequest& request, int64_t step);
  // Call after each step. Returns whether a trace has ended, which takes a while.
  bool AfterStep();
  // Call when no step follows: ends a running trace and returns when it is written. A trace without
  // a whole step, as the only one was cut off, is not written.
  void Finish();
  // Ends a running trace at any moment; it is not written. `why`: the result's error, for people.
  void GiveUp(const std::string& why);

  // Whether a trace is running, so that the current step's times are not typical.
  bool active() const { return active_; }

 private:
  void Start(int64_t step);
  void MarkStep(int64_t step);
  void MarkPhase(Phase phase);
  void Stop();
  // Ends the trace, and describes it. Null: there is none; the result's error says why.
  std::shared_ptr<torch::autograd::profiler::ProfilerResult> End(ProfileResult* result);
  void InInterpreter(const std::function<void()>& part);
  void Fail(const std::string& why);

  const Options options_;
  ProfileRequest request_;  // The latest; id 0: none.
  bool active_ = false;
  std::thread::id thread_;                     // That began the running trace.
  int64_t first_step_ = 0;                     // Of the running trace.
  int64_t steps_ = 0;                          // Whole steps in it so far.
  std::unique_ptr<at::RecordFunction> mark_;   // Of the current step.
  std::unique_ptr<at::RecordFunction> phase_;  // Of its current phase.
  std::thread writer_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_TELEMETRY_PROFILER_H_
