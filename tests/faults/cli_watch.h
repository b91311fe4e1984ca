// A watching `paceline` command with `-o json`, as people leave it running, and its output so far.
//
// Thread-compatible.
#ifndef TESTS_FAULTS_CLI_WATCH_H_
#define TESTS_FAULTS_CLI_WATCH_H_

#include <signal.h>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "cli/text/message_json.h"
#include "tests/integration/new_folder.h"
#include "tests/integration/process.h"

namespace paceline {

class CliWatch {
 public:
  explicit CliWatch(const std::vector<std::string>& command) : process_(command, file_) {}

  // Waits for its exit code: when it ends by itself, or after Ctrl-C.
  int Wait() { return process_.Wait(); }
  int Interrupt() {
    process_.Signal(SIGINT);
    return process_.Wait();
  }

  // All that it has written.
  std::string Text() const { return ReadFile(file_); }

  // The messages in its output, without the lines about outages between them.
  template <typename Message>
  std::vector<Message> Reported() const {
    std::vector<Message> reported;
    std::istringstream lines(Text());
    std::string line;
    while (std::getline(lines, line)) {
      Message message;
      const bool is_message = absl::StartsWith(line, "{") && MessageFromJson(line, &message);
      if (is_message) reported.push_back(std::move(message));
    }
    return reported;
  }

 private:
  const std::string file_ = NewFolder() + "/told";
  Process process_;  // Writes to the file.
};

}  // namespace paceline

#endif  // TESTS_FAULTS_CLI_WATCH_H_
