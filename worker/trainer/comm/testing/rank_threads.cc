#include "worker/trainer/comm/testing/rank_threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace paceline {

TrainerConfig Ranks(int count) {
  TrainerConfig config;
  config.member.world_size = count;
  config.startup_timeout = absl::Seconds(20);
  return config;
}

void RunRanks(const TrainerConfig& config,
              const std::function<void(const TrainerConfig&, Groups&)>& rank,
              const std::function<std::unique_ptr<Platform>(int)>& make_platform) {
  at::set_num_threads(1);
  StoreServer store("lo");
  const std::string address = absl::StrCat("127.0.0.1:", store.port(), "/secret");
  // Gloo may find a rank gone that leaves while others still connect.
  std::atomic<int> connecting = config.member.world_size;
  absl::Notification all_connected;
  std::vector<std::thread> threads;
  for (int number = 0; number < config.member.world_size; ++number) {
    threads.emplace_back([&, number] {
      TrainerConfig own = config;
      own.id = {JobId("job-0"), Generation(1), Rank(number)};
      own.member.rank = number;
      own.interface = "lo";
      const std::unique_ptr<Platform> platform = make_platform(number);
      try {
        const std::unique_ptr<Groups> groups = [&] {
          const absl::Cleanup tried = [&] {
            if (--connecting == 0) all_connected.Notify();
          };
          return std::make_unique<Groups>(*platform, own, c10::Device(c10::kCPU), address);
        }();
        all_connected.WaitForNotification();
        rank(own, *groups);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << number << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace paceline
