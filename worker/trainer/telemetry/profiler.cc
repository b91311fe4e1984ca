#include "worker/trainer/telemetry/profiler.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <filesystem>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "worker/ring/step_ring.h"

namespace paceline {
namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

std::set<ActivityType> Activities(bool cuda) {
  std::set<ActivityType> activities = {ActivityType::CPU};
  if (cuda) activities.insert(ActivityType::CUDA);
  return activities;
}

std::unique_ptr<at::RecordFunction> Mark(const std::string& name) {
  auto mark = std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE);
  if (mark->isActive()) mark->before(name);
  return mark;
}

double SecondsSince(uint64_t start_ns) {
  return static_cast<double>(MonotonicNanos() - start_ns) * 1e-9;
}

// Writes the trace beside its final name and renames it, so that nobody reads half of it.
void Save(kineto::ProfilerResult& trace, ProfileResult* result) {
  const std::string unfinished = result->trace + ".part";
  trace.save(unfinished);
  std::error_code error;
  std::filesystem::rename(unfinished, result->trace, error);
  if (!error)
    result->trace_bytes = static_cast<int64_t>(std::filesystem::file_size(result->trace, error));
  if (error) result->error = absl::StrCat("cannot write ", result->trace, ": ", error.message());
}

}  // namespace

Profiler::Profiler(Options options) : options_(std::move(options)) {}

Profiler::~Profiler() {
  if (writer_.joinable()) writer_.join();
}

void Profiler::BeforeStep(const ProfileRequest& request, int64_t step) {
  if (active_) return MarkStep(step);
  if (request.id <= *options_.answered) return;
  const bool is_new = request.id != request_.id;
  request_ = request;
  if (step < request_.first_step) return;
  *options_.answered = request_.id;
  if (is_new && step > request_.first_step && !options_.own_pace) {
    return Fail(absl::StrCat("the request for step ", request_.first_step,
                             " came too late, before step ", step, "; try again"));
  }
  Start(step);
}

void Profiler::Start(int64_t step) {
  std::error_code error;
  const std::string directory = absl::StrCat(options_.directory, "/", request_.id);
  std::filesystem::create_directories(directory, error);
  if (error) return Fail(absl::StrCat("cannot make ", directory, ": ", error.message()));
  const ProfilerConfig config(ProfilerState::KINETO, /*report_input_shapes=*/true,
                              /*profile_memory=*/false,
                              /*with_stack=*/options_.interpreter != nullptr);
  try {
    if (options_.interpreter != nullptr) {
      // Preparing would end the other trace.
      const std::string why_not = options_.interpreter->WhyNotTraced();
      if (!why_not.empty()) return Fail(why_not);
    }
    if (request_.memory) options_.start_memory();
    kineto::prepareProfiler(config, Activities(options_.cuda));
    InInterpreter([&] { kineto::enableProfiler(config, Activities(options_.cuda)); });
  } catch (const std::exception& exception) {
    return Fail(absl::StrCat("the profiler cannot start: ", exception.what()));
  }
  active_ = true;
  thread_ = std::this_thread::get_id();
  first_step_ = step;
  steps_ = 0;
  options_.timer->SetListener([this](Phase phase) { MarkPhase(phase); });
  MarkStep(step);
  PACELINE_LOG(INFO) << "profiling step=" << step << " steps=" << request_.steps;
}

void Profiler::MarkStep(int64_t step) {
  phase_.reset();
  mark_ = Mark(absl::StrCat("ProfilerStep#", step));
}

void Profiler::MarkPhase(Phase phase) {
  // On a device, a backward pass has a thread of its own. A mark ends on the thread it began on.
  if (std::this_thread::get_id() != thread_) return;
  phase_.reset();
  phase_ = Mark(PhaseName(phase));
}

bool Profiler::AfterStep() {
  phase_.reset();
  mark_.reset();
  if (!active_ || ++steps_ < request_.steps) return false;
  Stop();
  return true;
}

void Profiler::Finish() {
  if (active_ && steps_ == 0) {
    GiveUp(absl::StrCat("step ", first_step_,
                        " was cut off, as a rank was lost or the ranks changed; ask again"));
  }
  if (active_) Stop();
  if (writer_.joinable()) writer_.join();
  if (request_.id > *options_.answered) {
    *options_.answered = request_.id;
    Fail(absl::StrCat("the training, or its ranks' generation, ended before step ",
                      request_.first_step));
  }
}

void Profiler::GiveUp(const std::string& why) {
  if (!active_) return;
  ProfileResult dropped;
  End(&dropped);
  Fail(why);
}

void Profiler::Stop() {
  const uint64_t start_ns = MonotonicNanos();
  ProfileResult result;
  std::shared_ptr<kineto::ProfilerResult> trace = End(&result);
  if (trace == nullptr) return Fail(result.error);
  if (writer_.joinable()) writer_.join();
  writer_ = std::thread([trace = std::move(trace), result = std::move(result), start_ns,
                         on_result = options_.on_result]() mutable {
    try {
      Save(*trace, &result);
    } catch (const std::exception& error) {
      result.error = absl::StrCat("cannot write ", result.trace, ": ", error.what());
    }
    result.dump_s = SecondsSince(start_ns);
    PACELINE_LOG(INFO) << "profiled step=" << result.first_step << " steps=" << result.steps
                       << " file=" << result.trace << " bytes=" << result.trace_bytes
                       << " dump_s=" << result.dump_s;
    on_result(result);
  });
}

std::shared_ptr<kineto::ProfilerResult> Profiler::End(ProfileResult* result) {
  active_ = false;
  options_.timer->SetListener(nullptr);
  phase_.reset();
  mark_.reset();
  result->id = request_.id;
  result->first_step = first_step_;
  result->steps = static_cast<int>(steps_);
  const std::string path =
      absl::StrCat(options_.directory, "/", request_.id, "/rank", options_.rank);
  result->trace = path + ".trace.json";
  std::shared_ptr<kineto::ProfilerResult> trace;
  try {
    InInterpreter([&] { trace = kineto::disableProfiler(); });
    if (request_.memory) {
      const absl::Status status = options_.write_memory(path + ".memory.pickle");
      if (status.ok()) {
        result->memory = path + ".memory.pickle";
      } else {
        result->error = std::string(status.message());
      }
    }
  } catch (const std::exception& error) {
    result->error = absl::StrCat("the profiler gives no trace: ", error.what());
    return nullptr;
  }
  return trace;
}

void Profiler::InInterpreter(const std::function<void()>& part) {
  options_.interpreter == nullptr ? part() : options_.interpreter->Do(part);
}

void Profiler::Fail(const std::string& why) {
  PACELINE_LOG(WARNING) << "no profile: " << why;
  ProfileResult result;
  result.id = request_.id;
  result.error = why;
  options_.on_result(result);
}

}  // namespace paceline
