// A rank's groups, which meet in a store.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/core/host_port.h"
#include "worker/trainer/comm/connections.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/group_parts.h"
#include "worker/trainer/comm/node_sum.h"
#include "worker/trainer/comm/noting_store.h"

namespace paceline {
namespace {

// Torch's flight recorder looks a group up in a std::map shared by all threads before it locks
// (FlightRecorder::recordWithResetEnabled): a new group in one thread can crash another. So turn it
// off before main, while there is one thread; a value set by the user wins.
[[maybe_unused]] const int no_flight_record =
    ::setenv("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/0);

// Timeout for connecting to a store that has answered before.
constexpr absl::Duration kStoreTimeout = absl::Seconds(10);

// Splits "host:port/secret" or "host:port".
std::pair<std::string, std::string> SplitStoreAddress(const std::string& address) {
  return absl::StrSplit(address, absl::MaxSplits('/', 1));
}

c10::intrusive_ptr<c10d::Store> OpenStore(const std::string& address, absl::Duration timeout,
                                          OwnConnections& connections) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) {
    throw std::invalid_argument(
        absl::StrCat("address of the store: ", std::string(parsed.status().message())));
  }
  if (parsed->port == 0) throw std::invalid_argument("address of the store: it has no port");
  connections.NoteStore(parsed->host, parsed->port);
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(parsed->port);
  options.waitWorkers = false;
  options.timeout = absl::ToChronoMilliseconds(timeout);
  return c10::make_intrusive<c10d::TCPStore>(parsed->host, options);
}

// Formats "0-7" or "0,4".
std::string RanksText(const std::vector<int>& ranks) {
  const bool consecutive = ranks.back() - ranks.front() + 1 == static_cast<int>(ranks.size());
  return consecutive ? absl::StrCat(ranks.front(), "-", ranks.back()) : absl::StrJoin(ranks, ",");
}

std::vector<int> AllRanks(int world_size) {
  std::vector<int> ranks(static_cast<size_t>(world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

using StorePointer = c10::intrusive_ptr<c10d::Store>;

std::vector<uint8_t> BytesOf(const std::string& text) { return {text.begin(), text.end()}; }

// Sets `key` to `desired` if its value is `expected` (empty: unset). Returns the new value.
std::string CompareSet(const StorePointer& store, const std::string& key,
                       const std::string& expected, const std::string& desired) {
  const std::vector<uint8_t> now = store->compareSet(key, BytesOf(expected), BytesOf(desired));
  return {now.begin(), now.end()};
}

// Raises the number at `key`, unset at first, to at least `value`. Returns it.
int64_t RaiseTo(const StorePointer& store, const std::string& key, int64_t value) {
  std::string expected;
  while (true) {
    const std::string now = CompareSet(store, key, expected, absl::StrCat(value));
    int64_t greatest = 0;
    if (!absl::SimpleAtoi(now, &greatest)) throw std::runtime_error("the store holds no number");
    if (greatest >= value) return greatest;
    expected = now;
  }
}

constexpr char kAbandoned[] = "abandoned";

// Stores the first proposal as the decision and wakes all waiters. Returns the decision.
std::string Decide(const StorePointer& store, const std::string& proposal) {
  const std::string decision = CompareSet(store, "decision", "", proposal);
  store->set("decided", "1");
  return decision;
}

}  // namespace

struct Groups::Parts {
  Platform& platform;
  const TrainerConfig config;
  const c10::Device device;
  const std::string store_address;  // "host:port".
  const std::string secret;         // Prefix of its keys, known to members only.
  std::shared_ptr<Group> all;

  // Until the ranks have met. After that, the store is known to be alive.
  absl::Duration store_timeout;

  absl::Mutex mu;
  // Idle connections to the store: each waiting thread needs its own. Keep them few: the store's
  // server looks up each connecting peer's name, which may take seconds.
  std::vector<c10::intrusive_ptr<c10d::Store>> idle ABSL_GUARDED_BY(mu);
  absl::Duration timeout ABSL_GUARDED_BY(mu);
  std::vector<std::weak_ptr<Group>> others ABSL_GUARDED_BY(mu);
  bool store_ended ABSL_GUARDED_BY(mu) = false;
  bool aborted ABSL_GUARDED_BY(mu) = false;

  Parts(Platform& platform_in, const TrainerConfig& config_in, c10::Device device_in,
        const std::string& store_address_in)
      : platform(platform_in),
        config(config_in),
        device(device_in),
        store_address(SplitStoreAddress(store_address_in).first),
        secret(SplitStoreAddress(store_address_in).second),
        store_timeout(config_in.startup_timeout),
        timeout(config_in.startup_timeout) {}

  // Calls `use` with the store, under the generation's prefix.
  template <typename F>
  void WithStore(const std::string& prefix, F use);
  // `how` lacks the rank and size.
  std::unique_ptr<Group::Parts> Connect(const std::vector<int>& ranks, const std::string& name,
                                        Membership how);
  // Adds the group to those that get timeouts and are aborted; at once, if they were already.
  void Keep(const std::shared_ptr<Group>& group);
  // All groups that are held, including `all`.
  std::vector<std::shared_ptr<Group>> Held() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Makes sums of a host group with this name go through shared memory on each node.
  void ShareMemory(Group& group, const std::string& name);
};

template <typename F>
void Groups::Parts::WithStore(const std::string& prefix, F use) {
  c10::intrusive_ptr<c10d::Store> store;
  {
    const absl::MutexLock lock(&mu);
    if (store_ended) throw std::runtime_error("the generation is over");
    if (!idle.empty()) {
      store = std::move(idle.back());
      idle.pop_back();
    }
  }
  if (store == nullptr) {
    store = OpenStore(store_address, store_timeout, platform.connections());
  }
  {
    // Connections made before EndStore are shut down with the others.
    const absl::MutexLock lock(&mu);
    if (store_ended) throw std::runtime_error("the generation is over");
  }
  use(c10::make_intrusive<NotingStore>(
      absl::StrCat(secret, secret.empty() ? "" : "/", "gen", config.member.generation, "/", prefix),
      store, platform.connections()));
  const absl::MutexLock lock(&mu);
  idle.push_back(std::move(store));
}

std::unique_ptr<Group::Parts> Groups::Parts::Connect(const std::vector<int>& ranks,
                                                     const std::string& name, Membership how) {
  auto parts = std::make_unique<Group::Parts>();
  if (ranks.size() == 1) return parts;
  Membership membership = how;
  membership.size = static_cast<int>(ranks.size());
  membership.rank =
      static_cast<int>(std::find(ranks.begin(), ranks.end(), config.rank()) - ranks.begin());
  Collective("rendezvous", [&] {
    WithStore(name, [&](const c10::intrusive_ptr<c10d::Store>& store) {
      parts->backend = platform.Connect(config, membership, store, config.startup_timeout);
      parts->group =
          c10::make_intrusive<c10d::ProcessGroup>(store, membership.rank, membership.size);
    });
    using Type = c10d::ProcessGroup::BackendType;
    const bool nccl = device.is_cuda() && !membership.on_host;
    const Type type = nccl ? Type::NCCL : Type::GLOO;
    if (nccl) parts->group->setBoundDeviceId(device);
    parts->group->setBackend(nccl ? device.type() : c10::kCPU, type, parts->backend);
    parts->group->setDefaultBackend(type);
  });
  return parts;
}

Groups::Groups(Platform& platform, const TrainerConfig& config, c10::Device device,
               const std::string& store_address)
    : parts_(std::make_shared<Parts>(platform, config, device, store_address)) {
  std::vector<int> ranks = AllRanks(config.member.world_size);
  auto connected = parts_->Connect(ranks, "all", Membership());
  parts_->all.reset(new Group(std::move(ranks), std::move(connected)));
  parts_->store_timeout = std::min(config.startup_timeout, kStoreTimeout);
}

Groups::Groups(const Groups& other) = default;

Groups::~Groups() = default;

Group& Groups::all() { return *parts_->all; }

std::shared_ptr<Group> Groups::Make(const std::vector<int>& ranks, const std::string& use,
                                    int64_t version) {
  const bool is_for_copies = absl::StartsWith(use, kCopyUse);
  const bool streams = use == kStreamUse;
  if (ranks == parts_->all->ranks() && !is_for_copies && !streams) return parts_->all;
  const std::string name = absl::StrCat(use, "/", RanksText(ranks), "/", version);
  Membership how;
  how.high_priority = use == "gradients";
  how.on_host = use == "word" || is_for_copies;
  how.few_channels = streams;
  std::shared_ptr<Group> group(new Group(ranks, parts_->Connect(ranks, name, how)));
  group->parts_->for_copies = is_for_copies;
  parts_->Keep(group);
  return group;
}

std::shared_ptr<Group> Groups::MakeOfAll(const std::string& use, int64_t version, Traffic traffic) {
  const std::vector<int>& ranks = parts_->all->ranks();
  const std::string name = absl::StrCat(use, "/all/", version);
  Membership how;
  how.on_host = traffic == Traffic::kOnHost;
  how.high_priority = !how.on_host;
  how.few_channels = traffic == Traffic::kBesideTraining;
  std::shared_ptr<Group> group(new Group(ranks, parts_->Connect(ranks, name, how)));
  parts_->Keep(group);
  if (how.on_host || parts_->device.is_cpu()) parts_->ShareMemory(*group, name);
  return group;
}

std::shared_ptr<Group> Groups::MakePair(Platform& platform, const TrainerConfig& config,
                                        const std::string& store_address, const std::string& use,
                                        int number) {
  TrainerConfig of_two = config;
  of_two.member.rank = number;
  of_two.member.world_size = 2;
  Membership on_host;
  on_host.on_host = true;
  Parts parts(platform, of_two, c10::kCPU, store_address);
  std::vector<int> ranks = AllRanks(of_two.member.world_size);
  std::unique_ptr<Group::Parts> connected = parts.Connect(ranks, use, on_host);
  return std::shared_ptr<Group>(new Group(std::move(ranks), std::move(connected)));
}

void Groups::Parts::ShareMemory(Group& group, const std::string& name) {
  if (group.size() == 1) return;
  Membership on_host;
  on_host.on_host = true;
  std::unique_ptr<NodeSum> sum =
      NodeSum::Join(group, NodeKey(), [&](const std::vector<int>& leaders) {
        std::shared_ptr<Group> made(
            new Group(leaders, Connect(leaders, absl::StrCat(name, "/leaders"), on_host)));
        Keep(made);
        return made;
      });
  const absl::MutexLock lock(&mu);
  if (sum == nullptr) return;
  sum->SetTimeout(timeout);
  if (aborted) sum->Close();
  group.parts_->node_sum = std::move(sum);
}

void Groups::Parts::Keep(const std::shared_ptr<Group>& group) {
  if (group->size() == 1) return;
  bool is_late = false;
  {
    const absl::MutexLock lock(&mu);
    group->parts_->backend->setTimeout(absl::ToChronoMilliseconds(timeout));
    others.erase(std::remove_if(others.begin(), others.end(),
                                [](const std::weak_ptr<Group>& one) { return one.expired(); }),
                 others.end());
    others.push_back(group);
    is_late = aborted;
  }
  if (is_late) group->Abort();
}

std::vector<std::shared_ptr<Group>> Groups::Parts::Held() const {
  std::vector<std::shared_ptr<Group>> groups{all};
  for (const std::weak_ptr<Group>& other : others) {
    if (std::shared_ptr<Group> group = other.lock()) groups.push_back(std::move(group));
  }
  return groups;
}

void Groups::SetTimeout(absl::Duration timeout) {
  std::vector<std::shared_ptr<Group>> groups;  // Released without the lock.
  const absl::MutexLock lock(&parts_->mu);
  groups = parts_->Held();
  parts_->timeout = timeout;
  for (const std::shared_ptr<Group>& group : groups) {
    if (group->size() == 1) continue;
    group->parts_->backend->setTimeout(absl::ToChronoMilliseconds(timeout));
    if (group->parts_->node_sum != nullptr) group->parts_->node_sum->SetTimeout(timeout);
  }
}

void Groups::EndStore() {
  const absl::MutexLock lock(&parts_->mu);
  parts_->store_ended = true;
}

void Groups::Abort() {
  std::vector<std::shared_ptr<Group>> groups;
  {
    const absl::MutexLock lock(&parts_->mu);
    parts_->aborted = true;
    groups = parts_->Held();
    for (const std::shared_ptr<Group>& group : groups) {
      if (group->parts_->node_sum != nullptr) group->parts_->node_sum->Close();
    }
  }
  for (const std::shared_ptr<Group>& group : groups) group->Abort();
}

bool Groups::has_failed() const {
  std::vector<std::shared_ptr<Group>> groups;
  {
    const absl::MutexLock lock(&parts_->mu);
    groups = parts_->Held();
  }
  return std::any_of(groups.begin(), groups.end(), [](const std::shared_ptr<Group>& group) {
    if (group->size() == 1 || group->parts_->for_copies) return false;
    return group->parts_->aborted || group->parts_->backend->getError() != c10d::ErrorType::SUCCESS;
  });
}

RowCodec& Groups::row_codec() { return parts_->platform.row_codec(); }

OwnConnections& Groups::connections() { return parts_->platform.connections(); }

void Groups::Say(const std::string& word) {
  if (parts_->config.member.world_size == 1) return;
  Collective("word to the ranks", [&] {
    parts_->WithStore("said", [&](const StorePointer& store) { store->set(word, "1"); });
  });
}

bool Groups::WasSaid(const std::string& word) {
  if (parts_->config.member.world_size == 1) return false;
  bool said = false;
  Collective("word to the ranks", [&] {
    parts_->WithStore("said", [&](const StorePointer& store) { said = store->check({word}); });
  });
  return said;
}

std::string Groups::ShareFromRankZero(const std::string& key, const std::string& value) {
  if (parts_->config.member.world_size == 1) return value;
  std::string shared = value;
  Collective("sharing by rank 0", [&] {
    parts_->WithStore("shared", [&](const c10::intrusive_ptr<c10d::Store>& store) {
      if (parts_->config.rank() == 0) {
        store->set(key, value);
      } else {
        shared = store->get_to_str(key);
      }
    });
  });
  return shared;
}

std::optional<int64_t> Groups::GreatestOfAll(const std::string& key, int64_t value,
                                             absl::Duration timeout) {
  if (parts_->config.member.world_size == 1) return value;
  std::string decision;
  Collective("agreement of the ranks", [&] {
    parts_->WithStore(absl::StrCat("agree/", key), [&](const StorePointer& store) {
      RaiseTo(store, "greatest", value);
      if (store->add("ranks", 1) == parts_->config.member.world_size) {
        decision = Decide(store, store->get_to_str("greatest"));
        return;
      }
      try {
        store->wait({"decided"}, absl::ToChronoMilliseconds(timeout));
      } catch (const std::exception&) {
        // Too late, or the store is gone: this throws as well then.
      }
      decision = Decide(store, kAbandoned);
    });
  });
  int64_t greatest = 0;
  return absl::SimpleAtoi(decision, &greatest) ? std::optional(greatest) : std::nullopt;
}

}  // namespace paceline
