#include "controller/api/admission/worker_messages.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

v1::Hello Sound() {
  v1::Hello hello;
  hello.set_node("node-1.rack_2");
  hello.set_slots(8);
  (*hello.mutable_labels())["zone"] = "a";
  return hello;
}

TEST(WorkerMessagesTest, NamesOfNodes) {
  for (const char* name : {"a", "Node-1.rack_2", "7"}) EXPECT_TRUE(IsNodeName(name)) << name;
  for (const char* name : {"", "a b", "a/b", "a\n", "\xc3\xa4"}) EXPECT_FALSE(IsNodeName(name));
  EXPECT_TRUE(IsNodeName(std::string(63, 'a')));
  EXPECT_FALSE(IsNodeName(std::string(64, 'a')));
}

TEST(WorkerMessagesTest, SoundHelloIsTaken) { EXPECT_TRUE(CheckHello(Sound()).ok()); }

TEST(WorkerMessagesTest, HelloOfAnImpossibleNodeIsRefused) {
  const std::string text(kMaxNodeText + 1, 'x');
  const auto refused = [](const std::function<void(v1::Hello&)>& change) {
    v1::Hello hello = Sound();
    change(hello);
    return absl::IsInvalidArgument(CheckHello(hello));
  };
  EXPECT_TRUE(refused([](v1::Hello& hello) { hello.set_node("a b"); }));
  EXPECT_FALSE(refused([](v1::Hello& hello) { hello.set_slots(kMaxNodeSlots); }));
  EXPECT_TRUE(refused([](v1::Hello& hello) { hello.set_slots(kMaxNodeSlots + 1); }));
  EXPECT_TRUE(refused([&](v1::Hello& hello) { hello.set_node_uid(text); }));
  EXPECT_TRUE(refused([&](v1::Hello& hello) { hello.set_daemon_uid(text); }));
  EXPECT_TRUE(refused([&](v1::Hello& hello) { hello.set_address(text); }));
  EXPECT_TRUE(refused([&](v1::Hello& hello) { hello.set_metrics_address(text); }));
  EXPECT_TRUE(refused([&](v1::Hello& hello) { hello.set_probe_address(text); }));
  EXPECT_TRUE(refused([&](v1::Hello& hello) { hello.set_version(text); }));
  EXPECT_TRUE(refused([&](v1::Hello& hello) { hello.mutable_hardware()->set_os(text); }));
  EXPECT_TRUE(refused([&](v1::Hello& hello) { hello.mutable_hardware()->add_gpus(text); }));
  EXPECT_TRUE(refused([&](v1::Hello& hello) { (*hello.mutable_labels())[text] = "a"; }));
  EXPECT_TRUE(refused([&](v1::Hello& hello) { (*hello.mutable_labels())["a"] = text; }));
  EXPECT_TRUE(refused([](v1::Hello& hello) {
    for (int i = 0; i < kMaxNodeLabels; ++i) (*hello.mutable_labels())[absl::StrCat(i)] = "a";
  }));
  EXPECT_TRUE(refused([](v1::Hello& hello) {
    for (int i = 0; i <= kMaxNodeGpus; ++i) hello.mutable_hardware()->add_gpus("gpu");
  }));
  EXPECT_TRUE(refused([](v1::Hello& hello) {
    for (int i = 0; i <= kMaxNodeGpus; ++i) hello.mutable_hardware()->add_gpu_memory_bytes(1);
  }));
}

TEST(WorkerMessagesTest, EachMessageIsLimited) {
  const auto fill = [](v1::NodeReport* report) {
    for (int i = 0; i <= kMaxTrainersReported; ++i) report->add_trainers();
  };
  v1::WorkerMessage message;
  fill(message.mutable_hello()->mutable_report());
  LimitMessage(&message);
  EXPECT_EQ(message.hello().report().trainers_size(), kMaxTrainersReported);
  fill(message.mutable_report());
  LimitMessage(&message);
  EXPECT_EQ(message.report().trainers_size(), kMaxTrainersReported);
  for (int i = 0; i <= kMaxTrainersReported; ++i) message.mutable_steps()->add_batches();
  LimitMessage(&message);
  EXPECT_EQ(message.steps().batches_size(), kMaxTrainersReported);
  message.mutable_log()->set_id(7);
  LimitMessage(&message);
  EXPECT_EQ(message.kind_case(), v1::WorkerMessage::kLog);
}

TEST(WorkerMessagesTest, APartOfALogThatIsTooLongIsNotItsEnd) {
  v1::WorkerMessage message;
  v1::LogData& log = *message.mutable_log();
  log.set_offset(5);
  log.set_end(true);
  log.set_data(std::string(kMaxLogPart, 'a'));
  log.set_error(std::string(kMaxReportText, 'e'));
  const std::string before = message.SerializeAsString();
  LimitMessage(&message);
  EXPECT_EQ(message.SerializeAsString(), before);
  log.mutable_data()->push_back('b');
  log.mutable_error()->push_back('e');
  LimitMessage(&message);
  EXPECT_EQ(log.data(), std::string(kMaxLogPart, 'a'));
  EXPECT_FALSE(log.end()) << "the last byte is asked for again";
  EXPECT_EQ(log.offset(), 5);
  EXPECT_EQ(log.error().size(), kMaxReportText);
}

TEST(WorkerMessagesTest, CollectivesAreBoundedAndInOrder) {
  v1::NodeReport report;
  v1::RankCollectives& reported = *report.add_trainers()->mutable_collectives();
  reported.set_wanted(7);
  for (int i = 0; i < 100; ++i) {
    v1::GroupCollectives& group = *reported.add_groups();
    group.set_name(std::string(1000, 'x'));
    for (int rank = 0; rank < 1000; ++rank) group.add_ranks(rank);
    for (int number = 100; number > 0; --number) {
      group.add_collectives()->set_number(number);
    }
    group.mutable_collectives(0)->set_operation(std::string(1000, 'x'));
  }
  LimitReport(&report);
  const RankCollectives taken = ReportedBy(NodeName("a"), report).trainers[0].collectives;
  EXPECT_EQ(taken.wanted, 7);
  ASSERT_EQ(taken.groups.size(), 32u);
  EXPECT_EQ(taken.groups[0].name.size(), 200u);
  EXPECT_TRUE(taken.groups[0].ranks.empty());
  ASSERT_EQ(taken.groups[0].collectives.size(), 32u);
  EXPECT_EQ(taken.groups[0].collectives[0].number, 69);
  EXPECT_EQ(taken.groups[0].last, 100);
}

TEST(WorkerMessagesTest, LongTextsAreCutBetweenCharacters) {
  std::string text = "xx";
  while (text.size() <= 2 * kMaxLogTail) text += "\u20ac";
  v1::NodeReport report;
  v1::TrainerReport& trainer = *report.add_trainers();
  trainer.mutable_id()->set_job_id(text);
  trainer.set_store_address(text);
  trainer.set_stacks_file(text);
  trainer.mutable_exit()->set_message(text);
  trainer.mutable_exit()->set_log_tail(text);
  trainer.mutable_plan()->set_error(text);
  trainer.mutable_profile()->set_trace(text);
  trainer.mutable_profile()->set_memory(text);
  trainer.mutable_profile()->set_error(text);
  trainer.add_saves()->set_error(text);
  trainer.mutable_membership()->set_error(text);
  report.add_task_results()->set_error(text);
  report.mutable_check()->set_error(text);
  report.mutable_check()->set_peer(text);
  report.mutable_check()->add_measurements()->set_name(text);
  report.mutable_check()->mutable_measurements(0)->set_unit(text);
  LimitReport(&report);
  EXPECT_LT(report.ByteSizeLong(), kMaxLogTail + 10 * kMaxReportText + 5 * kMaxNodeText + 200);
  EXPECT_EQ(trainer.exit().message().size(), 2 + (kMaxReportText - 2) / 3 * 3);
  // Text that is not UTF-8 could be written but never read again.
  v1::NodeReport again;
  EXPECT_TRUE(again.ParseFromString(report.SerializeAsString()));
}

TEST(WorkerMessagesTest, LongListsAreCut) {
  v1::NodeReport report;
  for (int i = 0; i <= kMaxTrainersReported; ++i) report.add_trainers();
  for (int i = 0; i <= kMaxTasksReported; ++i) report.add_task_results();
  for (int i = 0; i <= kMaxTasksReported; ++i) report.mutable_task_results(0)->add_found();
  for (int i = 0; i <= kMaxLevelsReported; ++i) {
    report.mutable_trainers(0)->mutable_figures()->add_levels();
  }
  for (int i = 0; i <= kMaxNumbersReported; ++i) {
    v1::RankFigures& figures = *report.mutable_trainers(0)->mutable_figures();
    figures.add_reported()->set_name(std::string(kMaxNumberName + 1, 'x'));
  }
  LimitReport(&report);
  EXPECT_EQ(report.trainers_size(), kMaxTrainersReported);
  EXPECT_EQ(report.task_results_size(), kMaxTasksReported);
  EXPECT_EQ(report.task_results(0).found_size(), kMaxTasksReported);
  EXPECT_EQ(report.trainers(0).figures().levels_size(), kMaxLevelsReported);
  ASSERT_EQ(report.trainers(0).figures().reported_size(), kMaxNumbersReported);
  EXPECT_EQ(report.trainers(0).figures().reported(0).name().size(), kMaxNumberName);
}

TEST(WorkerMessagesTest, ReportWithinTheLimitsStaysAsItIs) {
  v1::NodeReport report;
  report.set_number(3);
  v1::TrainerReport& trainer = *report.add_trainers();
  trainer.mutable_id()->set_job_id("job-1");
  trainer.mutable_exit()->set_log_tail(std::string(8 << 10, 'x'));
  trainer.add_saves()->set_error("disk full");
  report.add_task_results()->mutable_task()->set_directory("/checkpoints/job-1");
  const std::string before = report.SerializeAsString();
  LimitReport(&report);
  EXPECT_EQ(report.SerializeAsString(), before);
}

}  // namespace
}  // namespace paceline
