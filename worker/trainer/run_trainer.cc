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
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/trainer/checkpoint/output_directory.h"
#include "worker/trainer/checkpoint/weights.h"
#include "worker/trainer/train_loop.h"

namespace paceline {
namespace {

// Time for all ranks to come to the rendezvous and to agree on the weights.
constexpr absl::Duration kRendezvousTimeout = absl::Minutes(10);

// In the order of their making.
struct Session {
  std::optional<StoreServer> store;
  std::optional<TrainerConfig> config;
  std::optional<ImageShard> train_data;
  std::optional<ImageShard> eval_data;
  std::unique_ptr<Model> model;
  std::optional<Group> group;
  std::optional<TrainLoop> loop;
};

absl::Status InputError(const absl::Status& status) {
  return status.ok() ? status : absl::InvalidArgumentError(status.message());
}

absl::StatusOr<ImageShard> OpenData(absl::string_view key, const std::string& path) {
  absl::StatusOr<ImageShard> shard = ImageShard::Open(path);
  if (shard.ok()) return shard;
  return absl::InvalidArgumentError(absl::StrCat(key, ": ", shard.status().message()));
}

absl::Status OpenAllData(Session& session) {
  const TrainerConfig& config = *session.config;
  PACELINE_ASSIGN_OR_RETURN(session.train_data, OpenData("data.train", config.train_data));
  const int64_t needed = config.batch * config.world_size;
  if (session.train_data->size() < needed) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.train: ", config.train_data, " has ", session.train_data->size(),
                     " samples, less than the ", needed, " of one step"));
  }
  if (config.eval_data.empty()) return absl::OkStatus();
  PACELINE_ASSIGN_OR_RETURN(session.eval_data, OpenData("data.eval", config.eval_data));
  const ImageFormat& train = session.train_data->format();
  const ImageFormat& eval = session.eval_data->format();
  if (train.channels != eval.channels || train.height != eval.height || train.width != eval.width ||
      train.classes != eval.classes) {
    return absl::InvalidArgumentError(absl::StrCat("data.eval: ", config.eval_data,
                                                   " differs from ", config.train_data,
                                                   " in channels, height, width or classes"));
  }
  return absl::OkStatus();
}

absl::Status Train(Session& session, Control& control, StepRingWriter& ring, Platform& platform) {
  session.store.emplace();
  PACELINE_ASSIGN_OR_RETURN(session.config, control.WaitForConfig());
  const TrainerConfig& config = *session.config;
  at::set_num_threads(config.threads);
  at::set_num_interop_threads(1);
  PACELINE_ASSIGN_OR_RETURN(const c10::Device device, platform.OpenDevice(config));
  PACELINE_RETURN_IF_ERROR(OpenAllData(session));
  const ImageFormat& format = session.train_data->format();
  session.model =
      MakeModel(config.model, {format.channels, format.height, format.width, format.classes},
                config.seed, device);
  if (config.rank() == 0 && !config.checkpoint_directory.empty()) {
    PACELINE_RETURN_IF_ERROR(PrepareOutputDirectory(config.output_directory()));
  }
  if (!config.init_from.empty()) {
    PACELINE_RETURN_IF_ERROR(InputError(LoadWeights(config.init_from, *session.model)));
  }
  control.SetReady(session.store->port());

  // A rank that is alone has nobody to meet.
  const std::string address = config.world_size > 1 ? control.WaitForStoreAddress() : "";
  session.group.emplace(platform, config, device, address, kRendezvousTimeout);
  session.loop.emplace(TrainLoop::Parts{config, *session.train_data,
                                        session.eval_data ? &*session.eval_data : nullptr,
                                        *session.model, *session.group, control, ring});
  session.group->SetTimeout(config.collective_timeout);
  control.SetRunning();
  PACELINE_LOG(INFO) << "training rank=" << config.rank() << " world_size=" << config.world_size
                     << " threads=" << config.threads << " device=" << device.str();
  return session.loop->Run();
}

bool IsOutOfMemory(absl::string_view message) {
  return absl::StrContains(message, "can't allocate memory") ||
         absl::StrContains(message, "out of memory");
}

// Turns torch's exceptions into the codes that Control::Finish names.
template <typename F>
absl::Status CatchAll(F run) {
  try {
    return run();
  } catch (const CollectiveError& error) {
    return absl::UnavailableError(error.what());
  } catch (const c10::DistError& error) {
    return absl::UnavailableError(error.what_without_backtrace());
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    return IsOutOfMemory(message) ? absl::ResourceExhaustedError(message)
                                  : absl::InternalError(message);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
}

}  // namespace

void RunTrainer(Control& control, StepRingWriter& ring, Platform& platform) {
  Session session;
  const absl::Status status = CatchAll([&] { return Train(session, control, ring, platform); });
  const int code = control.Finish(status);
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace paceline
