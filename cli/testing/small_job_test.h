// A fixture for tests of changes to a job: a controller with a job "small" of two ranks, which
// trains by hierarchical SGD.
#ifndef CLI_TESTING_SMALL_JOB_TEST_H_
#define CLI_TESTING_SMALL_JOB_TEST_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/testing/command_test.h"
#include "cli/testing/parsed.h"
#include "proto/job.pb.h"

namespace paceline {

inline constexpr char kId[] = "job-0123456789ab";

class SmallJobTest : public CommandTest {
 protected:
  SmallJobTest() { controller_.SetJobs({Job(1, "")}); }

  // In version 1 since step 0; `changes` is in protobuf's text format.
  static v1::Job Job(int64_t revision, const std::string& changes) {
    auto job = Parsed<v1::Job>(R"(
      id: "job-0123456789ab" state: RUNNING spec { name: "small" ranks: 2 steps: 100 }
      plan { version: 1 active_version: 1
             strategy { hsgd { ladder { period: 2 size: 1 } ladder { period: 4 level: SCOPE_ALL } } } }
      ranks { rank: 0 node: "w0" } ranks { rank: 1 node: "w1" } )");
    const auto more = Parsed<v1::Job>(changes);
    if (more.ranks_size() > 0) job.clear_ranks();
    job.MergeFrom(more);
    job.set_revision(revision);
    return job;
  }

  void WatchShows(const std::vector<std::string>& changes) {
    StreamScript<v1::JobEvent> script;
    int64_t revision = 1;
    for (const std::string& change : changes) {
      v1::JobEvent& event = script.messages.emplace_back();
      event.set_type(v1::MODIFIED);
      *event.mutable_job() = Job(++revision, change);
      event.set_revision(revision);
    }
    controller_.AddWatch(std::move(script));
  }
};

}  // namespace paceline

#endif  // CLI_TESTING_SMALL_JOB_TEST_H_
