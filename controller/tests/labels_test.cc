// Labels and descriptions of jobs over real sockets: choosing by them, and changing them.
#include "common/core/labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job_spec/job_spec.h"
#include "controller/testing/server_fixture.h"
#include "proto/job_history.grpc.pb.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LabelsTest : public ServerTest {
 protected:
  // Submits a job of this name with the label; an empty key: without.
  std::string SubmitWith(const std::string& name, const std::string& key = "",
                         const std::string& value = "") {
    v1::JobSpec spec = Spec();
    spec.set_name(name);
    if (!key.empty()) (*spec.mutable_labels())[key] = value;
    v1::Job job;
    const grpc::Status status = Submit(spec, absl::StrCat("submit ", name), &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job.id();
  }

  // Names of the jobs that match, from pages of one job each.
  std::vector<std::string> Chosen(const std::string& selector) {
    std::vector<std::string> names;
    v1::ListJobsRequest request;
    request.set_page_size(1);
    request.set_label_selector(selector);
    do {
      grpc::ClientContext context;
      v1::ListJobsResponse page;
      const grpc::Status status = jobs_->List(&context, request, &page);
      EXPECT_TRUE(status.ok()) << status.error_message();
      for (const v1::Job& job : page.jobs()) names.push_back(job.spec().name());
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    return names;
  }

  grpc::Status Change(const std::string& job, const std::vector<std::string>& labels,
                      const std::string& request_id, v1::Job* reply) {
    grpc::ClientContext context;
    v1::ChangeLabelsRequest request;
    request.set_job(job);
    request.set_request_id(request_id);
    for (const std::string& label : labels) request.add_labels(label);
    return jobs_->ChangeLabels(&context, request, reply);
  }

  static JobLabels LabelsOf(const v1::Job& job) {
    return JobLabels(job.spec().labels().begin(), job.spec().labels().end());
  }

  std::unique_ptr<PlayedWorker> worker_ = Join(Hello("w0"));
};

TEST_F(LabelsTest, AListIsFilteredAndItsPagesAreWhole) {
  SubmitWith("old", "model", "llama");
  SubmitWith("bare");
  SubmitWith("new", "model", "llama");
  SubmitWith("other", "model", "resnet");
  EXPECT_THAT(Chosen(""), ElementsAre("other", "new", "bare", "old"));
  EXPECT_THAT(Chosen("model=llama"), ElementsAre("new", "old"));
  EXPECT_THAT(Chosen("model!=llama"), ElementsAre("other", "bare"));
  EXPECT_THAT(Chosen("!model"), ElementsAre("bare"));
  EXPECT_THAT(Chosen("model,model!=llama"), ElementsAre("other"));
  EXPECT_THAT(Chosen("team"), IsEmpty());
}

TEST_F(LabelsTest, WhatIsNoSelectorIsRefused) {
  grpc::ClientContext context;
  v1::ListJobsRequest request;
  request.set_label_selector("model in (llama)");
  v1::ListJobsResponse reply;
  const grpc::Status status = jobs_->List(&context, request, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Reason(status), "SELECTOR_INVALID");
  EXPECT_THAT(status.error_message(), HasSubstr("KEY!=VALUE"));
}

TEST_F(LabelsTest, MoreChangesThanAJobCanHaveAreRefusedUnread) {
  SubmitWith("digits", "model", "llama");
  v1::Job job;
  const grpc::Status status =
      Change("digits", std::vector<std::string>(4096, "a="), "change", &job);
  EXPECT_THAT(status.error_message(), HasSubstr("has 4096 changes; allowed are 128"));
}

TEST_F(LabelsTest, ImpossibleLabelsAreRefusedAtSubmit) {
  v1::JobSpec spec = Spec();
  (*spec.mutable_labels())["te am"] = "vision";
  v1::Job job;
  const grpc::Status status = Submit(spec, "r1", &job);
  EXPECT_EQ(Reason(status), "SPEC_INVALID");
  EXPECT_THAT(status.error_message(), HasSubstr("labels: has the key \"te am\""));
}

// Maps have no order on the wire.
TEST_F(LabelsTest, ARepeatedSubmitIsTheSameWhateverTheOrderOfItsLabels) {
  std::string first;
  for (int i = 0; i < 8; ++i) {
    v1::JobSpec spec = Spec();
    for (int k = 0; k < 20; ++k) (*spec.mutable_labels())[absl::StrCat("k", (k + i) % 20)] = "v";
    v1::Job job;
    const grpc::Status status = Submit(spec, "r1", &job);
    ASSERT_TRUE(status.ok()) << status.error_message();
    if (first.empty()) first = job.id();
    EXPECT_EQ(job.id(), first);
  }
}

TEST_F(LabelsTest, ChangesAreStoredShownAndInTheHistory) {
  const std::string id = SubmitWith("digits", "model", "llama");
  v1::Job job;
  ASSERT_TRUE(Change("digits", {"team=vision", "model-"}, "change", &job).ok());
  EXPECT_EQ(LabelsOf(job), (JobLabels{{"team", "vision"}}));
  EXPECT_EQ(job.spec().steps(), Spec().steps()) << "the rest of the spec stays";
  EXPECT_THAT(Chosen("team=vision,!model"), ElementsAre("digits"));
  // The request again is answered, and changes nothing.
  ASSERT_TRUE(Change("digits", {"team=audio"}, "next", &job).ok());
  ASSERT_TRUE(Change("digits", {"team=vision", "model-"}, "change", &job).ok());
  EXPECT_EQ(LabelsOf(job), (JobLabels{{"team", "audio"}}));
  EXPECT_EQ(Reason(Change("digits", {"team=other"}, "next", &job)), "REQUEST_ID_REUSED");

  worker_.reset();
  Restart();
  EXPECT_EQ(LabelsOf(Get(id)), (JobLabels{{"team", "audio"}}));
  EXPECT_THAT(Chosen("team=audio"), ElementsAre("digits"));

  grpc::ClientContext context;
  v1::GetJobHistoryRequest request;
  request.set_job(id);
  v1::JobHistory history;
  ASSERT_TRUE(v1::JobHistoryService::NewStub(channel_)->Get(&context, request, &history).ok());
  std::vector<std::string> changes;
  for (const v1::JobHistoryEvent& event : history.events()) {
    if (absl::StartsWith(event.what(), "labels")) changes.push_back(event.what());
  }
  EXPECT_THAT(changes, ElementsAre("labels changed: model removed, team=vision",
                                   "labels changed: team=audio"));
}

TEST_F(LabelsTest, TheDescriptionIsReplacedOrRemoved) {
  SubmitWith("digits");
  const auto describe = [&](const std::string& text, const std::string& request_id) {
    grpc::ClientContext context;
    v1::ChangeLabelsRequest request;
    request.set_job("digits");
    request.set_request_id(request_id);
    request.set_description(text);
    v1::Job job;
    const grpc::Status status = jobs_->ChangeLabels(&context, request, &job);
    return status.ok() ? job.spec().description() : Reason(status);
  };
  EXPECT_EQ(describe("for ann", "r1"), "for ann");
  EXPECT_EQ(describe(std::string(1025, 'a'), "r2"), "LABELS_INVALID");
  EXPECT_EQ(Get("digits").spec().description(), "for ann");
  EXPECT_EQ(describe("", "r3"), "");
}

TEST_F(LabelsTest, ImpossibleChangesAreRefusedWhole) {
  const std::string id = SubmitWith("digits", "model", "llama");
  v1::Job job;
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{}, std::vector<std::string>{"team=vision", "te am=x"},
        std::vector<std::string>{"model"}}) {
    const grpc::Status status = Change(id, wrong, "wrong", &job);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(Reason(status), "LABELS_INVALID");
  }
  std::vector<std::string> many;
  for (int i = 0; i < kMaxSpecLabels; ++i) many.push_back(absl::StrCat("k", i, "=v"));
  const grpc::Status status = Change(id, many, "many", &job);
  EXPECT_EQ(Reason(status), "LABELS_INVALID");
  EXPECT_THAT(status.error_message(), HasSubstr("has 65 entries; allowed are 64"));
  EXPECT_EQ(LabelsOf(Get(id)), (JobLabels{{"model", "llama"}}));
  EXPECT_EQ(Reason(Change("nobody", {"a=b"}, "r1", &job)), "JOB_NOT_FOUND");
}

TEST_F(LabelsTest, AJobThatHasEndedCanBeLabelled) {
  SubmitWith("first");
  SubmitWith("second");
  const std::string id = SubmitWith("digits");  // It has no slot, and so ends at once.
  grpc::ClientContext context;
  v1::CancelJobRequest request;
  request.set_job(id);
  request.set_request_id("cancel");
  v1::Job job;
  ASSERT_TRUE(jobs_->Cancel(&context, request, &job).ok());
  WaitFor(id, v1::CANCELLED);
  ASSERT_TRUE(Change(id, {"verdict=diverged"}, "r1", &job).ok());
  EXPECT_EQ(LabelsOf(job), (JobLabels{{"verdict", "diverged"}}));
  EXPECT_EQ(job.state(), v1::CANCELLED);
}

}  // namespace
}  // namespace paceline
