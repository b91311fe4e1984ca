#include "worker/trainer/comm/group.h"

#include <chrono>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace paceline {
namespace {

using c10d::ProcessGroup;

constexpr size_t kBroadcastBytes = 250 << 20;

// Runs a collective and gives its exceptions one type.
template <typename F>
void Collective(absl::string_view name, F run) {
  try {
    run();
  } catch (const std::exception& error) {
    throw CollectiveError(name, error.what());
  }
}

c10::intrusive_ptr<c10d::Store> OpenStore(const std::string& address, absl::Duration timeout) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos ||
      !absl::SimpleAtoi(absl::string_view(address).substr(colon + 1), &port) || port < 1 ||
      port > 65535) {
    throw std::invalid_argument(absl::StrCat("store address \"", address, "\" is not host:port"));
  }
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.waitWorkers = false;
  options.timeout = absl::ToChronoMilliseconds(timeout);
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

// "[/some/file.cc:12] text" without what is in the brackets.
absl::string_view WithoutPosition(absl::string_view what) {
  const size_t end = what.find("] ");
  return absl::StartsWith(what, "[/") && end != what.npos ? what.substr(end + 2) : what;
}

}  // namespace

CollectiveError::CollectiveError(absl::string_view collective, absl::string_view what)
    : std::runtime_error(absl::StrCat(collective, ": ", WithoutPosition(what))) {}

struct StoreServer::Parts {
  c10::intrusive_ptr<c10d::TCPStore> store;
};

StoreServer::StoreServer() : parts_(std::make_unique<Parts>()) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  parts_->store = c10::make_intrusive<c10d::TCPStore>("localhost", options);
}

StoreServer::~StoreServer() = default;

int StoreServer::port() const { return parts_->store->getPort(); }

struct Group::Parts {
  c10::intrusive_ptr<c10d::Backend> backend;
  c10::intrusive_ptr<ProcessGroup> group;
};

Group::Group(Platform& platform, const TrainerConfig& config, c10::Device device,
             const std::string& store_address, absl::Duration timeout)
    : size_(config.world_size), parts_(std::make_unique<Parts>()) {
  if (size_ == 1) return;
  Collective("rendezvous", [&] {
    auto store = c10::make_intrusive<c10d::PrefixStore>(
        absl::StrCat("gen", config.id.generation.value()), OpenStore(store_address, timeout));
    parts_->backend = platform.Connect(config, store, timeout);
    parts_->group = c10::make_intrusive<ProcessGroup>(store, config.rank(), size_);
    const auto type =
        device.is_cuda() ? ProcessGroup::BackendType::NCCL : ProcessGroup::BackendType::GLOO;
    if (device.is_cuda()) parts_->group->setBoundDeviceId(device);
    parts_->group->setBackend(device.type(), type, parts_->backend);
    parts_->group->setDefaultBackend(type);
  });
}

Group::~Group() = default;

void Group::SetTimeout(absl::Duration timeout) {
  if (size_ > 1) parts_->backend->setTimeout(absl::ToChronoMilliseconds(timeout));
}

void Group::Sum(at::Tensor tensor) {
  if (size_ == 1) return;
  Collective("sum over the ranks", [&] {
    std::vector<at::Tensor> tensors{std::move(tensor)};
    parts_->group->allreduce(tensors)->wait();
  });
}

void Group::CopyFromRankZero(const std::vector<at::Tensor>& tensors) {
  if (size_ == 1 || tensors.empty()) return;
  Collective("copy from rank 0", [&] {
    at::NoGradGuard no_grad;
    std::vector<at::Tensor> detached;
    for (const at::Tensor& tensor : tensors) detached.push_back(tensor.detach());
    c10d::broadcast_coalesced(parts_->group, detached, kBroadcastBytes, /*rank=*/0);
  });
}

void Group::Barrier() {
  if (size_ > 1) Collective("barrier", [&] { parts_->group->barrier()->wait(); });
}

const c10::intrusive_ptr<ProcessGroup>& Group::torch_group() const { return parts_->group; }

}  // namespace paceline
