#include "worker/trainer/run_trainer.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/exception.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/trainer/checkpoint/output_directory.h"
#include "worker/trainer/checkpoint/train_state.h"
#include "worker/trainer/checkpoint/weights.h"
#include "worker/trainer/telemetry/host_memory.h"
#include "worker/trainer/train_loop.h"

namespace paceline {
namespace {

constexpr absl::Duration kLockPatience = absl::Minutes(1);

// In the order of their making.
struct Session {
  std::optional<StoreServer> store;
  std::optional<TrainerConfig> config;
  TrainingPlan plan;
  std::unique_ptr<Dataset> train_data;
  std::unique_ptr<Dataset> eval_data;
  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
  std::optional<OutputLock> output;
  TrainStart start;
  std::unique_ptr<StepTimer> timer;
  std::optional<Groups> groups;
  std::optional<TrainLoop> loop;
};

absl::Status InputError(const absl::Status& status) {
  return status.ok() ? status : absl::InvalidArgumentError(status.message());
}

std::string FormatText(const SampleFormat& format) {
  if (!format.image.has_value()) return "tokens";
  const ImageFormat& image = *format.image;
  return absl::StrCat("images of ", image.channels, " x ", image.height, " x ", image.width, " in ",
                      image.classes, " classes");
}

absl::Status OpenAllData(Session& session) {
  const TrainerConfig& config = *session.config;
  PACELINE_ASSIGN_OR_RETURN(session.train_data,
                            OpenDataset("data.train", config.data.train, config.data));
  const int64_t needed = config.batch * config.world_size;
  if (session.train_data->size() < needed) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.train: ", config.data.train, " has ", session.train_data->size(),
                     " samples, less than the ", needed, " of one batch of all ranks"));
  }
  if (config.data.eval.empty()) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(session.eval_data,
                            OpenDataset("data.eval", config.data.eval, config.data));
  const std::string train = FormatText(session.train_data->format());
  const std::string eval = FormatText(session.eval_data->format());
  if (train != eval) {
    return absl::InvalidArgumentError(absl::StrCat("data.eval: ", config.data.eval, " holds ", eval,
                                                   ", and ", config.data.train, " ", train));
  }
  return absl::OkStatus();
}

absl::Status PrepareOutput(Session& session) {
  const TrainerConfig& config = *session.config;
  if (!config.checkpoint.directory.empty()) {
    PACELINE_RETURN_IF_ERROR(
        PrepareOutputDirectory("checkpoint.directory", config.output_directory(), config.rank()));
    if (config.rank() == 0) {
      // One that was given up may live on for a while, and a network's file system may take as long
      // to notice that it is dead.
      absl::StatusOr<OutputLock> lock =
          OutputLock::Take("checkpoint.directory", config.output_directory(),
                           absl::StrCat("job ", config.id.job.value(), ", generation ",
                                        config.id.generation.value()),
                           std::min(kLockPatience, config.startup_timeout / 10));
      if (!lock.ok()) return absl::InternalError(lock.status().message());
      session.output.emplace(*std::move(lock));
    }
  }
  if (config.export_final.empty()) return absl::OkStatus();
  const size_t slash = config.export_final.rfind('/');
  return PrepareOutputDirectory(
      "export_final", slash == std::string::npos ? "." : config.export_final.substr(0, slash),
      config.rank());
}

// Model and optimizer as they were in the checkpoint.
absl::Status Restore(Session& session) {
  const TrainerConfig& config = *session.config;
  const absl::Time began = absl::Now();
  absl::StatusOr<StateReader> opened = StateReader::Open(config.restore_from, config.threads);
  if (!opened.ok()) return RestoreError(config.restore_from, opened.status());
  auto checkpoint = std::make_unique<StateReader>(*std::move(opened));
  const Manifest& manifest = checkpoint->manifest();
  if (manifest.step > config.steps) {
    return absl::InvalidArgumentError(
        absl::StrCat("steps is ", config.steps, ", and the checkpoint ", config.restore_from,
                     " was made after ", manifest.step, " steps: give more"));
  }
  const absl::Status restored =
      RestoreState(*checkpoint, config, *session.model, *session.optimizer);
  if (!restored.ok()) return RestoreError(config.restore_from, restored);
  TrainStart& start = session.start;
  start.step = manifest.step;
  start.position = {manifest.data_epoch, manifest.data_offset};
  start.figures.restored_step = manifest.step;
  start.figures.restored_bytes = checkpoint->bytes_read();
  start.figures.restore_s = absl::ToDoubleSeconds(absl::Now() - began);
  PACELINE_LOG(INFO) << "restored step=" << manifest.step << " from " << config.restore_from
                     << " bytes=" << start.figures.restored_bytes
                     << " seconds=" << start.figures.restore_s;
  start.checkpoint = std::move(checkpoint);
  return absl::OkStatus();
}

// For what is made on request or by an accident: the job's output, if it has one.
std::string RoomFor(const TrainerConfig& config, const std::string& what,
                    const std::string& trainer_directory) {
  return absl::StrCat(
      config.checkpoint.directory.empty() ? trainer_directory : config.output_directory(), "/",
      what);
}

absl::Status Train(Session& session, Control& control, StepRingWriter& ring, Platform& platform,
                   const std::string& directory) {
  session.store.emplace();
  PACELINE_ASSIGN_OR_RETURN(session.config, control.WaitForConfig());
  const TrainerConfig& config = *session.config;
  at::set_num_threads(config.threads);
  at::set_num_interop_threads(1);
  PACELINE_ASSIGN_OR_RETURN(const c10::Device device, platform.OpenDevice(config));
  PACELINE_RETURN_IF_ERROR(OpenAllData(session));
  PACELINE_ASSIGN_OR_RETURN(
      session.model, MakeModel(config.model, session.train_data->format(), config.seed, device));
  session.optimizer = MakeOptimizer(config.optimizer, TensorsOf(session.model->parameters()));
  PACELINE_RETURN_IF_ERROR(PrepareOutput(session));
  if (!config.restore_from.empty()) {
    PACELINE_RETURN_IF_ERROR(Restore(session));
  } else if (!config.init_from.empty()) {
    PACELINE_RETURN_IF_ERROR(InputError(LoadWeights(config.init_from, *session.model)));
  }
  session.timer = platform.MakeStepTimer(ring);
  control.SetReady(session.store->port());

  PACELINE_ASSIGN_OR_RETURN(const StartOrder start, control.WaitForStart());
  session.plan = start.plan;
  session.groups.emplace(platform, config, device, start.store_address);
  session.loop.emplace(TrainLoop::Parts{config, session.plan, *session.train_data,
                                        session.eval_data.get(), *session.model, *session.optimizer,
                                        session.start, *session.groups, control, platform,
                                        *session.timer, RoomFor(config, "profiles", directory)});
  PACELINE_RETURN_IF_ERROR(session.loop->Resume());
  control.SetRunning();
  PACELINE_LOG(INFO) << "training rank=" << config.rank() << " world_size=" << config.world_size
                     << " threads=" << config.threads << " device=" << device.str();
  return session.loop->Run();
}

bool IsOutOfMemory(absl::string_view message) {
  return absl::StrContains(message, "can't allocate memory") ||
         absl::StrContains(message, "out of memory");
}

// What a person needs to know besides: how much the process holds, and what the device says.
absl::Status OutOfMemory(absl::string_view message, const Session& session, Platform& platform,
                         const std::string& directory) {
  std::string text =
      absl::StrCat(message, "; this process has ", ReadHostMemory().rss >> 20, " MiB in memory");
  if (session.config.has_value()) {
    const TrainerConfig& config = *session.config;
    const std::string device = platform.DescribeOutOfMemory(
        RoomFor(config, absl::StrCat("oom.rank", config.rank(), ".pickle"), directory));
    if (!device.empty()) absl::StrAppend(&text, "; ", device);
  }
  return absl::ResourceExhaustedError(text);
}

}  // namespace

void RunTrainer(Control& control, StepRingWriter& ring, Platform& platform,
                const std::string& directory) {
  Session session;
  const auto out_of_memory = [&](absl::string_view message) {
    return OutOfMemory(message, session, platform, directory);
  };
  // Turns torch's exceptions into the codes that Control::Finish names.
  const absl::Status status = [&]() -> absl::Status {
    try {
      return Train(session, control, ring, platform, directory);
    } catch (const CollectiveError& error) {
      return absl::UnavailableError(error.what());
    } catch (const c10::DistError& error) {
      return absl::UnavailableError(error.what_without_backtrace());
    } catch (const c10::ValueError& error) {
      return absl::InvalidArgumentError(error.what_without_backtrace());
    } catch (const c10::Error& error) {
      const std::string message = error.what_without_backtrace();
      return IsOutOfMemory(message) ? out_of_memory(message) : absl::InternalError(message);
    } catch (const std::bad_alloc&) {
      return out_of_memory("out of memory");
    } catch (const std::exception& error) {
      return absl::InternalError(error.what());
    }
  }();
  const int code = control.Finish(status);
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace paceline
