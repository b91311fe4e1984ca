// A script that submits one small job after the other, each once, like users' scripts. Each job
// whose submission was answered must exist once, whatever happens to the controllers.
//
// Thread-compatible; a thread of its own runs the client.
#ifndef TESTS_FAULTS_STEADY_SUBMISSIONS_H_
#define TESTS_FAULTS_STEADY_SUBMISSIONS_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/text/message_json.h"
#include "proto/job.pb.h"
#include "tests/integration/new_folder.h"
#include "tests/integration/process.h"

namespace paceline {

class SteadySubmissions {
 public:
  // `client`: `paceline` with the flags that name the controllers. Each job uses one node.
  explicit SteadySubmissions(std::vector<std::string> client)
      : client_(std::move(client)), thread_([this] { Run(); }) {}
  ~SteadySubmissions() { Stop(); }
  SteadySubmissions(const SteadySubmissions&) = delete;
  SteadySubmissions& operator=(const SteadySubmissions&) = delete;

  // Stops after the submission under way. Then answered() and failures() may be called.
  void Stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
  }

  // Number of submissions answered so far; from any thread.
  int count() const { return count_; }

  // The ids of the answered jobs, by name.
  const std::map<std::string, std::string>& answered() const { return answered_; }
  // Output of the submissions that failed.
  const std::vector<std::string>& failures() const { return failures_; }

 private:
  void Run() {
    for (int i = 0; !stopping_; ++i) {
      const std::string name = absl::StrCat("steady-", i);
      const std::string file = absl::StrCat(folder_, "/", name, ".yaml");
      std::ofstream(file) << "name: " << name
                          << "\nranks: 1\nmodel: {kind: mlp, hidden: [8]}\n"
                             "data: {train: /nowhere/train.shard}\nsteps: 10\n"
                             "optimizer: {kind: sgd, learning_rate: 0.01}\n";
      std::vector<std::string> command = client_;
      command.insert(command.end(), {"--timeout", "60", "-o", "json", "submit", file});
      const Finished submitted = RunToEnd(command);
      const std::string id = IdIn(submitted.output);
      if (submitted.exit_code == 0 && !id.empty()) {
        answered_[name] = id;
        ++count_;
      } else {
        failures_.push_back(submitted.output);
      }
      absl::SleepFor(absl::Milliseconds(100));
    }
  }

  // The job's id in the output, which may also contain messages about outages.
  static std::string IdIn(const std::string& output) {
    const size_t begin = std::min(output.find("{\n"), output.size());
    v1::Job job;
    return MessageFromJson(output.substr(begin), &job) ? job.id() : "";
  }

  const std::string folder_ = NewFolder();
  const std::vector<std::string> client_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> count_ = 0;
  std::map<std::string, std::string> answered_;
  std::vector<std::string> failures_;
  std::thread thread_;
};

}  // namespace paceline

#endif  // TESTS_FAULTS_STEADY_SUBMISSIONS_H_
