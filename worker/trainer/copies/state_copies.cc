#include "worker/trainer/copies/state_copies.h"

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/boot_clock.h"
#include "common/log.h"
#include "worker/trainer/telemetry/host_memory.h"

namespace paceline {
namespace {

// How long either end waits for the other when their connection is made anew.
constexpr absl::Duration kReconnectPatience = absl::Seconds(10);

}  // namespace

StateCopies::StateCopies(Platform& platform, Options options)
    : platform_(platform), options_(std::move(options)) {}

StateCopies::~StateCopies() { Leave(); }

void StateCopies::Enter(const CopyOrders& orders) {
  const absl::MutexLock lock(&mu_);
  keeper_.Enter(orders);
  Report();
}

void StateCopies::Begin(std::shared_ptr<const CopyLinks> links, int64_t furthest) {
  links_ = std::move(links);
  furthest_ = furthest;
  early_.reset();
  const absl::MutexLock lock(&mu_);
  keeper_.OnBegun();
  is_leaving_ = false;
}

void StateCopies::Leave() {
  BeforeChange();
  {
    // Others wait for this rank, and the next generation drops copies that are not complete.
    const absl::MutexLock lock(&mu_);
    is_leaving_ = true;
  }
  sender_.Drain();
  receiver_.Drain();
  links_ = nullptr;
}

void StateCopies::Finish(absl::Duration patience) {
  BeforeChange();
  const absl::Time deadline = BootNow() + patience;
  {
    const absl::MutexLock lock(&mu_);
    is_leaving_ = true;
  }
  if (!sender_.Drain(patience) || !receiver_.Drain(deadline - BootNow())) {
    {
      const absl::MutexLock lock(&mu_);
      gives_up_ = true;
    }
    links_->to_buddy->Abort();
    links_->from_ward->Abort();
  }
  Leave();
}

bool StateCopies::IsDue(int64_t steps_done) const {
  const bool is_first = steps_done == furthest_ + 1;
  return links_ != nullptr && steps_done > furthest_ && steps_done < options_.steps &&
         (is_first || steps_done % options_.every_steps == 0);
}

void StateCopies::Copy(int64_t steps_done, const CopyOrders& orders, const StateParts& parts,
                       ImageFacts facts) {
  BeforeChange();  // For one that has just begun.
  CopyHeader header;
  std::optional<size_t> place;
  {
    const absl::MutexLock lock(&mu_);
    keeper_.OnOrders(orders);
    place = keeper_.BeginOwn(steps_done);
    header.orders = keeper_.orders();
    Report();
  }
  header.label = facts.label = {header.orders.seat, steps_done, header.orders.generation};
  if (place.has_value()) copying_ = Stage(own_[*place], parts, facts);
  if (copying_ != nullptr) {
    header.bytes = copying_->bytes();
  } else if (place.has_value()) {
    Fail(*place, steps_done, "there is no memory for it");
  }
  sender_.Enqueue([this, links = links_, image = copying_, place = place.value_or(0), header] {
    Send(*links->to_buddy, image.get(), place, header);
  });
  newest_due_ = steps_done;
  receiver_.Enqueue([this, links = links_, steps_done] { Receive(*links->from_ward, steps_done); });
}

std::shared_ptr<StateImage> StateCopies::Stage(Room& room, const StateParts& parts,
                                               const ImageFacts& facts) {
  try {
    auto image = std::make_shared<StateImage>(parts, facts);
    image->Stage(platform_, MemoryIn(room, image->bytes()));
    return image;
  } catch (const std::bad_alloc&) {
    return nullptr;
  } catch (const c10::Error& error) {
    if (!IsOutOfMemory(error.what_without_backtrace())) throw;
    return nullptr;
  }
}

void StateCopies::BeforeChange() {
  if (copying_ == nullptr) return;
  copying_->BeforeChange();
  copying_ = nullptr;
}

char* StateCopies::MemoryIn(Room& room, size_t bytes) const {
  room.bytes = bytes;
  if (room.memory == nullptr || room.memory->size() < bytes) {
    room.memory.reset();  // First: there may be no room for both.
    room.memory = std::make_unique<HostBuffer>(platform_, bytes);
  }
  return room.memory->data();
}

void StateCopies::PrepareRoom(size_t place, size_t bytes) {
  Room& room = own_[place];
  if (room.memory != nullptr) return;
  try {
    room.memory = std::make_unique<HostBuffer>(platform_, bytes);
  } catch (const std::bad_alloc&) {
    PACELINE_LOG(WARNING) << "no_memory_for_copies bytes=" << bytes;
  }
}

void StateCopies::Report() {
  if (!gives_up_) options_.on_report(keeper_.report());
}

void StateCopies::Fail(size_t place, int64_t step, const std::string& why) {
  PACELINE_LOG(WARNING) << "copy_failed step=" << step << ": " << why;
  const absl::MutexLock lock(&mu_);
  keeper_.OnFailed(place, step, why);
  Report();
}

void StateCopies::Send(CopyLink& link, const StateImage* image, size_t place, CopyHeader header) {
  const int64_t step = header.label.step;
  const char* memory = nullptr;
  std::string failure;
  try {
    if (image != nullptr) {
      image->Wait();
      memory = own_[place].memory->data();
      const absl::MutexLock lock(&mu_);
      keeper_.OnStaged(place);
    }
    // No other copy begins before this one has an outcome.
    if (image != nullptr) PrepareRoom(CopyPlaces::kCount - 1 - place, image->bytes());
  } catch (const std::exception& error) {
    failure = error.what();
    header.bytes = 0;
  }
  try {
    const bool connected =
        link.pair() != nullptr || (header.bytes > 0 && Reconnect(link, [] { return true; }));
    const bool sent = connected && SendCopy(link, header, memory, options_.send_limit,
                                            [this](absl::Duration ahead) { Pause(ahead); });
    if (!sent && failure.empty()) {
      failure = connected ? "the rank that is to keep it has not got it"
                          : "the connection to the rank that is to keep it has broken, and is not "
                            "yet made anew";
    }
  } catch (const std::exception& error) {
    link.Close();
    failure = error.what();
  }
  if (image == nullptr) return;
  if (!failure.empty()) return Fail(place, step, failure);
  const absl::MutexLock lock(&mu_);
  keeper_.OnSent(place, step);
  Report();
}

void StateCopies::Pause(absl::Duration duration) {
  const absl::MutexLock lock(&mu_);
  mu_.AwaitWithTimeout(absl::Condition(&is_leaving_), duration);
}

char* StateCopies::TakeWard(const CopyHeader& header, std::optional<size_t>* place) {
  {
    const absl::MutexLock lock(&mu_);
    *place = keeper_.BeginWard(header.label, header.orders);
  }
  if (!place->has_value()) return nullptr;
  try {
    return MemoryIn(ward_[**place], static_cast<size_t>(header.bytes));
  } catch (const std::exception& error) {
    PACELINE_LOG(WARNING) << "no_memory_for_copies bytes=" << header.bytes << ": " << error.what();
    const absl::MutexLock lock(&mu_);
    keeper_.OnNotReceived(**place);
    return nullptr;
  }
}

void StateCopies::Receive(CopyLink& link, int64_t step) {
  // Twice: that a connection has broken since the copy before shows only now.
  for (int tries = 0; tries < 2; ++tries) {
    try {
      if (link.pair() == nullptr) {
        early_.reset();
        // The ward offers when it has staged its copy, which may take long: until the next is due.
        const auto is_next_due = [this, step] { return newest_due_ > step; };
        if (is_next_due() || !Reconnect(link, is_next_due)) return;
      }
      return ReceiveUpTo(link, step);
    } catch (const std::exception& error) {
      link.Close();
      PACELINE_LOG(WARNING) << "copy_not_received step=" << step << ": " << error.what();
    }
  }
}

void StateCopies::ReceiveUpTo(const CopyLink& link, int64_t step) {
  while (true) {
    const CopyHeader header = early_.has_value() ? *early_ : ReceiveHeader(link);
    early_.reset();
    if (header.label.step > step) {
      early_ = header;
      return;
    }
    std::optional<size_t> place;
    ReceiveCopy(
        link, header, [&](const CopyHeader& its) { return TakeWard(its, &place); },
        [&](bool whole) {
          const absl::MutexLock lock(&mu_);
          if (whole) {
            keeper_.OnReceived(*place);
          } else {
            keeper_.OnNotReceived(*place);
          }
        });
    if (header.label.step == step) return;
  }
}

bool StateCopies::IsLeaving() const {
  const absl::MutexLock lock(&mu_);
  return is_leaving_;
}

bool StateCopies::Reconnect(CopyLink& link, const std::function<bool()>& may_end) {
  const absl::Time patient_until = BootNow() + kReconnectPatience;
  const auto is_over = [&] { return IsLeaving() || (BootNow() >= patient_until && may_end()); };
  if (is_over() || !link.Reconnect(is_over)) return false;
  PACELINE_LOG(INFO) << "copies_connected_again";
  if (!IsLeaving()) return true;
  // Finish may have ended the links before this one was there.
  link.Close();
  return false;
}

std::vector<CopyLabel> StateCopies::Held() const {
  const absl::MutexLock lock(&mu_);
  std::vector<CopyLabel> held = keeper_.own().Whole();
  for (const CopyLabel& label : keeper_.ward().Whole()) held.push_back(label);
  return held;
}

absl::string_view StateCopies::ImageOf(const CopyLabel& label) const {
  const absl::MutexLock lock(&mu_);
  const auto image_in = [](const Rooms& rooms, size_t place) {
    return absl::string_view(rooms[place].memory->data(), rooms[place].bytes);
  };
  if (const auto own = keeper_.own().Find(label)) return image_in(own_, *own);
  if (const auto ward = keeper_.ward().Find(label)) return image_in(ward_, *ward);
  return {};
}

absl::StatusOr<char*> StateCopies::BeginFetch(const CopyLabel& label, size_t bytes) {
  {
    const absl::MutexLock lock(&mu_);
    fetching_ = keeper_.BeginFetch(label);
  }
  if (!fetching_.has_value()) {
    return absl::InternalError(absl::StrCat("both places for copies are in use, and seat ",
                                            label.seat, " lacks that of step ", label.step));
  }
  try {
    return MemoryIn(own_[*fetching_], bytes);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "out of host memory: the copy of seat ", label.seat, " after step ", label.step, " takes ",
        bytes >> 20, " MiB, and this process has ", ReadHostMemory().rss >> 20,
        " MiB; run fewer ranks on the host, or leave recovery.copy_every_steps out"));
  }
}

void StateCopies::EndFetch(bool whole) {
  if (!fetching_.has_value()) return;
  const absl::MutexLock lock(&mu_);
  if (whole) {
    keeper_.OnFetched(*fetching_);
  } else {
    keeper_.OnNotFetched(*fetching_);
  }
  fetching_.reset();
}

void StateCopies::BeginRestore(int64_t steps_lost) {
  const absl::MutexLock lock(&mu_);
  keeper_.OnGoingBack(steps_lost);
  Report();
}

}  // namespace paceline
