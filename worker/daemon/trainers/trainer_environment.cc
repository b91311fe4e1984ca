#include "worker/daemon/trainers/trainer_environment.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/job_spec/job_spec.h"
#include "worker/shim/trainer_dir.h"

namespace paceline {
namespace {

constexpr absl::string_view kNames[] = {
    "PATH",         "HOME",         "USER",          "LOGNAME",         "SHELL",
    "LANG",         "TZ",           "TMPDIR",        "LD_LIBRARY_PATH", "LD_PRELOAD",
    "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS",
};
constexpr absl::string_view kPrefixes[] = {
    "LC_",  "CUDA_", "NVIDIA_", "NCCL_",    "GLOO_",   "OMP_",      "MKL_",
    "KMP_", "GOMP_", "TORCH_",  "PYTORCH_", "MALLOC_", "PACELINE_",
};

constexpr absl::string_view kStoreNames[] = {
    "CLOUDSDK_AUTH_ACCESS_TOKEN",
    "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE",
    "STORAGE_EMULATOR_HOST",
    "SSL_CERT_FILE",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
};

// Torch's own default since one buffer serves all backends.
constexpr char kRecordedCollectives[] = "2000";

// Variables of CommandEnvironment that differ in a rank's next start.
constexpr absl::string_view kOfOneStart[] = {
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_ERROR_FILE",
    "PACELINE_GENERATION",
    "PACELINE_DIR",
    "PACELINE_RING",
};

bool IsKept(absl::string_view entry) {
  const absl::string_view name = entry.substr(0, entry.find('='));
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [name](absl::string_view prefix) { return absl::StartsWith(name, prefix); });
}

bool IsOfStore(absl::string_view entry) {
  const absl::string_view name = entry.substr(0, entry.find('='));
  return absl::StartsWith(name, "AWS_") ||
         std::find(std::begin(kStoreNames), std::end(kStoreNames), name) != std::end(kStoreNames);
}

using Variables = std::map<std::string, std::string>;

// Puts `entry` first in the colon-separated list of folders in variable `name`.
void PutFirst(const std::string& entry, const char* name, Variables& variables) {
  std::string& list = variables[name];
  list = list.empty() ? entry : absl::StrCat(entry, ":", list);
}

// Returns the variables that torchrun gives its workers.
Variables RankVariables(const v1::TrainerPlan& plan, const CommandSurroundings& surroundings) {
  Variables variables;
  const v1::LocalRanks& local = plan.local();
  const std::string rank = absl::StrCat(plan.membership().rank());
  const std::string world = absl::StrCat(plan.membership().world_size());
  variables["RANK"] = variables["ROLE_RANK"] = rank;
  variables["WORLD_SIZE"] = variables["ROLE_WORLD_SIZE"] = world;
  variables["ROLE_NAME"] = "default";
  variables["LOCAL_RANK"] = absl::StrCat(local.index());
  variables["LOCAL_WORLD_SIZE"] = absl::StrCat(local.slots_size());
  variables["GROUP_RANK"] = absl::StrCat(local.node());
  variables["GROUP_WORLD_SIZE"] = absl::StrCat(local.nodes());
  variables["MASTER_ADDR"] = surroundings.master_host;
  variables["MASTER_PORT"] = absl::StrCat(surroundings.master_port);
  variables["TORCHELASTIC_RUN_ID"] = plan.id().job_id();
  variables["TORCHELASTIC_RESTART_COUNT"] = absl::StrCat(local.restarts());
  variables["TORCHELASTIC_MAX_RESTARTS"] = absl::StrCat(plan.spec().max_restarts());
  // There is no agent with a store: rank 0 opens the store.
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  variables["TORCHELASTIC_ERROR_FILE"] =
      absl::StrCat(surroundings.own_dir, "/", trainer_dir::kErrorFile);
  return variables;
}

// Tells a script which rank it is.
void SetRank(const v1::TrainerPlan& plan, const CommandSurroundings& surroundings,
             Variables& variables) {
  for (const auto& [name, value] : RankVariables(plan, surroundings)) variables[name] = value;
  if (plan.spec().device() == v1::CUDA) {
    variables["CUDA_VISIBLE_DEVICES"] = absl::StrJoin(plan.local().slots(), ",");
  }
  variables["PACELINE_GENERATION"] = absl::StrCat(plan.membership().generation());
}

// Tells a session how to find its daemon, and nothing of a rank, not even what was passed on.
void SetSession(const v1::TrainerPlan& plan, const CommandSurroundings& surroundings,
                Variables& variables) {
  for (const auto& [name, value] : RankVariables(plan, surroundings)) variables.erase(name);
  variables["PACELINE_SESSION"] = "1";
  // Which engine to load: the configuration comes later, over the socket.
  variables["PACELINE_DEVICE"] = plan.spec().device() == v1::CUDA ? "cuda" : "cpu";
  variables["PACELINE_ORPHAN_TIMEOUT_S"] = absl::StrCat(surroundings.orphan_timeout_s);
  variables["PACELINE_GENERATION"] = absl::StrCat(plan.id().generation());
}

}  // namespace

std::vector<std::string> CommandEnvironment(const std::vector<std::string>& passed_on,
                                            const v1::TrainerPlan& plan,
                                            const CommandSurroundings& surroundings) {
  const v1::JobSpec& spec = plan.spec();
  Variables variables = {{"OMP_NUM_THREADS", absl::StrCat(surroundings.threads)},
                         {"PYTHONUNBUFFERED", "1"}};
  // In a session the engine handles errors of collectives; torch would end the process.
  if (!spec.session()) variables["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "1";
  if (!surroundings.device.empty()) {
    variables["GLOO_SOCKET_IFNAME"] = variables["NCCL_SOCKET_IFNAME"] = surroundings.device;
  }
  for (const std::string& entry : passed_on) {
    std::pair<std::string, std::string> parts = absl::StrSplit(entry, absl::MaxSplits('=', 1));
    variables[std::move(parts.first)] = std::move(parts.second);
  }
  for (const auto& [name, value] : spec.environment()) variables[name] = value;
  if (!spec.venv().empty()) {
    PutFirst(absl::StrCat(spec.venv(), "/bin"), "PATH", variables);
    variables["VIRTUAL_ENV"] = spec.venv();
    variables.erase("PYTHONHOME");
  }
  spec.session() ? SetSession(plan, surroundings, variables)
                 : SetRank(plan, surroundings, variables);
  variables["PACELINE_JOB_ID"] = plan.id().job_id();
  variables["PACELINE_DIR"] = surroundings.own_dir;
  variables["PACELINE_SOCKET"] = surroundings.socket;
  if (!surroundings.ring.empty()) {
    variables["PACELINE_RING"] = surroundings.ring;
    if (!surroundings.watch_dir.empty()) PutFirst(surroundings.watch_dir, "PYTHONPATH", variables);
    // Keeps what a hanging rank reports of its collectives (python/paceline/_collectives.py).
    if (!spec.session() && variables.count("TORCH_NCCL_TRACE_BUFFER_SIZE") == 0) {
      variables.emplace("TORCH_FR_BUFFER_SIZE", kRecordedCollectives);
    }
  }
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(absl::StrCat(name, "=", value));
  return entries;
}

bool IsSameRank(const std::string& a, const std::string& b) {
  const auto lasting = [](const std::string& text) {
    std::vector<std::string> entries = absl::StrSplit(text, '\0', absl::SkipEmpty());
    entries.erase(std::remove_if(entries.begin(), entries.end(),
                                 [](absl::string_view entry) {
                                   const absl::string_view name = entry.substr(0, entry.find('='));
                                   return std::find(std::begin(kOfOneStart), std::end(kOfOneStart),
                                                    name) != std::end(kOfOneStart);
                                 }),
                  entries.end());
    return entries;
  };
  return lasting(a) == lasting(b);
}

std::vector<std::string> ScrubEnvironment(const std::vector<std::string>& environment) {
  std::vector<std::string> kept;
  std::copy_if(environment.begin(), environment.end(), std::back_inserter(kept), IsKept);
  return kept;
}

std::vector<std::string> StoreEnvironment(const std::vector<std::string>& environment) {
  std::vector<std::string> kept;
  std::copy_if(environment.begin(), environment.end(), std::back_inserter(kept), IsOfStore);
  return kept;
}

std::vector<std::string> TrainerEnvironment(const std::vector<std::string>& kept,
                                            const std::vector<std::string>& of_stores,
                                            const v1::JobSpec& spec) {
  std::vector<std::string> entries = kept;
  if (spec.command().empty() && ReadsObjects(spec.data())) {
    entries.insert(entries.end(), of_stores.begin(), of_stores.end());
  }
  return entries;
}

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return entries;
}

}  // namespace paceline
