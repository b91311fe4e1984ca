#include "tests/faults/controller_group.h"

#include <gtest/gtest.h>
#include <httplib.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/exit_codes.h"
#include "tests/integration/new_folder.h"
#include "tests/integration/test_cluster.h"

namespace paceline {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

// Whether the process has ended without anybody having waited for it.
bool IsOver(const Process& process) {
  siginfo_t info = {};
  return ::waitid(P_PID, static_cast<id_t>(process.pid()), &info, WEXITED | WNOHANG | WNOWAIT) ==
             0 &&
         info.si_pid != 0;
}

// When a controller did something as the leader of a term: times as text, which sorts.
struct Acts {
  std::string elected;
  std::string last;
};

void ReadActs(const std::string& log, std::map<int64_t, Acts>& by_term) {
  static const std::set<std::string> kActs = {
      "job_state",  "job_generation",      "decision",    "automation_state",
      "node_state", "checkpoint_complete", "state_loaded"};
  std::istringstream lines(log);
  std::string line;
  int64_t term = 0;
  while (std::getline(lines, line)) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_discarded() || !json.contains("event")) continue;
    const std::string event = json["event"];
    const std::string time = json["time"];
    if (event == "standing_by") term = 0;
    if (event == "elected") {
      EXPECT_TRUE(absl::SimpleAtoi(json["term"].get<std::string>(), &term));
      EXPECT_EQ(by_term.count(term), 0) << "two leaders of one term";
      by_term[term] = {time, time};
    }
    if (kActs.count(event) == 0) continue;
    EXPECT_NE(term, 0) << "a standby acts: " << line;
    by_term[term].last = time;
  }
}

}  // namespace

ControllerGroup::ControllerGroup(const EtcdCluster& etcd, int controllers,
                                 std::vector<std::string> flags,
                                 const std::vector<std::string>& identity)
    : directory_(NewFolder()),
      flags_(std::move(flags)),
      members_(static_cast<size_t>(controllers)) {
  flags_.insert(flags_.end(), identity.begin(), identity.end());
  for (int c = 0; c < controllers; ++c) {
    for (const std::string& endpoint : etcd.endpoints()) {
      Wires(c).push_back(std::make_unique<TcpProxy>(endpoint));
    }
    members_[c].grpc = "127.0.0.1:0";
    members_[c].http = "127.0.0.1:0";
    Start(c);
  }
}

ControllerGroup::~ControllerGroup() {
  for (Member& member : members_) {
    if (!member.process.has_value()) continue;
    member.process->Signal(SIGTERM);
    const int code = member.process->Wait();
    // A deposed controller may end by itself while it is asked to end.
    EXPECT_TRUE(code == kExitOk || code == kExitDeposed) << code;
  }
}

std::string ControllerGroup::File(int controller, const std::string& name) const {
  return absl::StrCat(directory_, "/c", controller, ".", name);
}

std::string ControllerGroup::Addresses() const {
  return absl::StrJoin(members_, ",", [](std::string* out, const Member& member) {
    absl::StrAppend(out, member.grpc);
  });
}

void ControllerGroup::Start(int controller) {
  Member& member = members_.at(controller);
  std::vector<std::string> endpoints;
  for (const auto& wire : member.wires) endpoints.push_back(wire->address());
  std::filesystem::remove(File(controller, "address"));
  std::vector<std::string> command = {Program("paceline-controller"),
                                      "--store=etcd",
                                      "--etcd-endpoints=" + absl::StrJoin(endpoints, ","),
                                      "--listen=" + member.grpc,
                                      "--http=" + member.http,
                                      "--state-dir=" + File(controller, "state"),
                                      "--address-file=" + File(controller, "address"),
                                      "--log-format=json"};
  command.insert(command.end(), flags_.begin(), flags_.end());
  member.process.emplace(command, File(controller, "log"));
  nlohmann::json address;
  ASSERT_TRUE(Eventually([&] {
    address = nlohmann::json::parse(ReadFile(File(controller, "address")), nullptr, false);
    return !address.is_discarded();
  })) << ReadFile(File(controller, "log"));
  // Keeps the addresses for the next start.
  member.grpc = address["grpc"];
  member.http = address["http"];
}

void ControllerGroup::Signal(int controller, int signal) const {
  members_.at(controller).process->Signal(signal);
}

void ControllerGroup::Kill(int controller) {
  members_.at(controller).process->Kill();
  members_.at(controller).process.reset();
}

int ControllerGroup::WaitForEnd(int controller) {
  const int code = members_.at(controller).process->Wait(kPatience);
  members_.at(controller).process.reset();
  return code;
}

bool ControllerGroup::Leads(int controller) const {
  const Member& member = members_.at(controller);
  if (!member.process.has_value()) return false;
  httplib::Client http("http://" + member.http);
  http.set_connection_timeout(1);
  http.set_read_timeout(1);
  const auto response = http.Get("/readyz");
  return response && response->status == 200;
}

int ControllerGroup::WaitForLeader() { return WaitForLeaderAfter(-1); }

int ControllerGroup::WaitForLeaderAfter(int before) {
  int leader = -1;
  EXPECT_TRUE(Eventually(
      [&] {
        for (int c = 0; c < static_cast<int>(members_.size()); ++c) {
          std::optional<Process>& process = members_[c].process;
          if (process.has_value() && IsOver(*process)) {
            EXPECT_EQ(process->Wait(), kExitDeposed) << ReadFile(File(c, "log"));
            Start(c);
          }
          if (c != before && Leads(c)) leader = c;
        }
        return leader >= 0;
      },
      kPatience))
      << "nobody leads";
  return leader < 0 ? 0 : leader;
}

void ControllerGroup::ExpectOneLeaderAtATime() const {
  std::map<int64_t, Acts> by_term;
  for (size_t c = 0; c < members_.size(); ++c) {
    ReadActs(ReadFile(File(static_cast<int>(c), "log")), by_term);
  }
  EXPECT_FALSE(by_term.empty());
  const Acts* before = nullptr;
  for (const auto& [term, acts] : by_term) {
    if (before != nullptr) {
      EXPECT_LE(before->last, acts.elected)
          << "a leader has acted after the one of term " << term << " was elected";
    }
    before = &acts;
  }
}

}  // namespace paceline
