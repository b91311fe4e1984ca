#include "worker/trainer/check/torch_check.h"

#include <ATen/Parallel.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>

#include <exception>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/boot_clock.h"
#include "common/core/status_macros.h"

namespace paceline {
namespace {

constexpr char kLoopback[] = "127.0.0.1";
constexpr absl::Duration kTimeout = absl::Seconds(6);
constexpr int kWarmUps = 20;
constexpr int kSmallRepeats = 200;
constexpr int kLargeRepeats = 8;
constexpr int64_t kLargeBytes = 16 << 20;

// Times `work`; returns the seconds of each repeat.
std::vector<double> Time(int repeats, const std::function<void()>& work) {
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const absl::Time start = BootNow();
    work();
    seconds.push_back(absl::ToDoubleSeconds(BootNow() - start));
  }
  return seconds;
}

std::vector<Measurement> RunCollectives(c10::intrusive_ptr<c10d::Store> store, int rank) {
  const auto timeout = absl::ToChronoMilliseconds(kTimeout);
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(kLoopback));
  c10d::ProcessGroupGloo group(std::move(store), rank, 2, options);
  const auto reduce = [&](const at::Tensor& tensor) {
    std::vector<at::Tensor> tensors = {tensor};
    group.allreduce(tensors)->wait();
  };
  const at::Tensor small = at::ones({1});
  const at::Tensor large = at::ones({kLargeBytes / 4});
  Time(kWarmUps, [&] { reduce(small); });
  const double latency_s = Median(Time(kSmallRepeats, [&] { reduce(small); }));
  reduce(large);
  const double large_s = Median(Time(kLargeRepeats, [&] { reduce(large); }));
  return {{"loopback_latency", latency_s * 1e6, "us", false},
          {"loopback_bandwidth", static_cast<double>(kLargeBytes) / large_s / 1e9, "GB/s", true}};
}

c10::intrusive_ptr<c10d::TCPStore> MakeStore(int port) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.isServer = port == 0;
  options.waitWorkers = false;
  options.timeout = absl::ToChronoMilliseconds(kTimeout);
  return c10::make_intrusive<c10d::TCPStore>(kLoopback, options);
}

absl::Status ToStatus(const std::exception& error) {
  const std::string text = error.what();
  return absl::InternalError(
      absl::StrCat("loopback not measured: ", text.substr(0, text.find('\n'))));
}

}  // namespace

std::vector<Measurement> CheckGemm(int size, int threads, absl::Duration time) {
  const c10::InferenceMode no_gradients;
  at::set_num_threads(threads);
  const at::Tensor a = at::ones({size, size});
  const at::Tensor b = at::ones({size, size});
  const double operations = 2.0 * size * size * size;
  Time(2, [&] { at::mm(a, b); });
  std::vector<double> rates;
  const absl::Time end = BootNow() + time;
  while (rates.empty() || BootNow() < end) {
    rates.push_back(operations / Time(1, [&] { at::mm(a, b); })[0] / 1e9);
  }
  return {{"gemm", Median(rates), "GFLOP/s", true}};
}

absl::StatusOr<std::vector<Measurement>> CheckLoopback(
    const std::function<absl::Status(int port)>& start_other) {
  try {
    const auto store = MakeStore(0);
    PACELINE_RETURN_IF_ERROR(start_other(store->getPort()));
    return RunCollectives(store, 0);
  } catch (const std::exception& error) {
    return ToStatus(error);
  }
}

absl::Status CheckLoopbackAsOther(int port) {
  try {
    RunCollectives(MakeStore(port), 1);
    return absl::OkStatus();
  } catch (const std::exception& error) {
    return ToStatus(error);
  }
}

}  // namespace paceline
