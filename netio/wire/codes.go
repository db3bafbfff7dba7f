package wire

import "strconv"

// Code is what a request asks for or what an answer says: the two number ranges overlap, and the
// response bit of the flag tells which is meant. Names and numbers are those of stock broker 5.5.0.
type Code int32

// Request codes.
const (
	SendMessage                          Code = 10
	PullMessage                          Code = 11
	QueryMessage                         Code = 12
	QueryBrokerOffset                    Code = 13
	QueryConsumerOffset                  Code = 14
	UpdateConsumerOffset                 Code = 15
	UpdateAndCreateTopic                 Code = 17
	UpdateAndCreateTopicList             Code = 18
	GetAllTopicConfig                    Code = 21
	GetTopicConfigList                   Code = 22
	GetTopicNameList                     Code = 23
	UpdateBrokerConfig                   Code = 25
	GetBrokerConfig                      Code = 26
	TriggerDeleteFiles                   Code = 27
	GetBrokerRuntimeInfo                 Code = 28
	SearchOffsetByTimestamp              Code = 29
	GetMaxOffset                         Code = 30
	GetMinOffset                         Code = 31
	GetEarliestMsgStoretime              Code = 32
	ViewMessageByID                      Code = 33
	HeartBeat                            Code = 34
	UnregisterClient                     Code = 35
	ConsumerSendMsgBack                  Code = 36
	EndTransaction                       Code = 37
	GetConsumerListByGroup               Code = 38
	CheckTransactionState                Code = 39
	NotifyConsumerIdsChanged             Code = 40
	LockBatchMQ                          Code = 41
	UnlockBatchMQ                        Code = 42
	GetAllConsumerOffset                 Code = 43
	GetAllDelayOffset                    Code = 45
	CheckClientConfig                    Code = 46
	GetClientConfig                      Code = 47
	GetTimerCheckPoint                   Code = 60
	GetTimerMetrics                      Code = 61
	PutKVConfig                          Code = 100
	GetKVConfig                          Code = 101
	DeleteKVConfig                       Code = 102
	RegisterBroker                       Code = 103
	UnregisterBroker                     Code = 104
	GetRouteInfoByTopic                  Code = 105
	GetBrokerClusterInfo                 Code = 106
	UpdateAndCreateSubscriptionGroup     Code = 200
	GetAllSubscriptionGroupConfig        Code = 201
	GetTopicStatsInfo                    Code = 202
	GetConsumerConnectionList            Code = 203
	GetProducerConnectionList            Code = 204
	WipeWritePermOfBroker                Code = 205
	GetAllTopicListFromNameserver        Code = 206
	DeleteSubscriptionGroup              Code = 207
	GetConsumeStats                      Code = 208
	SuspendConsumer                      Code = 209
	ResumeConsumer                       Code = 210
	ResetConsumerOffsetInConsumer        Code = 211
	ResetConsumerOffsetInBroker          Code = 212
	AdjustConsumerThreadPool             Code = 213
	WhoConsumeTheMessage                 Code = 214
	DeleteTopicInBroker                  Code = 215
	DeleteTopicInNameServer              Code = 216
	RegisterTopicInNameServer            Code = 217
	GetKVListByNamespace                 Code = 219
	ResetConsumerClientOffset            Code = 220
	GetConsumerStatusFromClient          Code = 221
	InvokeBrokerToResetOffset            Code = 222
	InvokeBrokerToGetConsumerStatus      Code = 223
	GetTopicsByCluster                   Code = 224
	UpdateAndCreateSubscriptionGroupList Code = 225
	QueryTopicConsumeByWho               Code = 300
	RegisterFilterServer                 Code = 301
	RegisterMessageFilterClass           Code = 302
	QueryConsumeTimeSpan                 Code = 303
	GetSystemTopicListFromNS             Code = 304
	GetSystemTopicListFromBroker         Code = 305
	CleanExpiredConsumeQueue             Code = 306
	GetConsumerRunningInfo               Code = 307
	QueryCorrectionOffset                Code = 308
	ConsumeMessageDirectly               Code = 309
	SendMessageV2                        Code = 310
	GetUnitTopicList                     Code = 311
	GetHasUnitSubTopicList               Code = 312
	GetHasUnitSubUnUnitTopicList         Code = 313
	CloneGroupOffset                     Code = 314
	ViewBrokerStatsData                  Code = 315
	CleanUnusedTopic                     Code = 316
	GetBrokerConsumeStats                Code = 317
	UpdateNameServerConfig               Code = 318
	GetNameServerConfig                  Code = 319
	SendBatchMessage                     Code = 320
	QueryConsumeQueue                    Code = 321
	QueryDataVersion                     Code = 322
	ResumeCheckHalfMessage               Code = 323
	SendReplyMessage                     Code = 324
	SendReplyMessageV2                   Code = 325
	PushReplyMessageToClient             Code = 326
	AddWritePermOfBroker                 Code = 327
	GetAllProducerInfo                   Code = 328
	DeleteExpiredCommitLog               Code = 329
	QueryTopicsByConsumer                Code = 343
	QuerySubscriptionByConsumer          Code = 345
	GetTopicConfig                       Code = 351
	GetSubscriptionGroupConfig           Code = 352
	UpdateAndGetGroupForbidden           Code = 353
	CheckRocksDBCQWriteProgress          Code = 354
	ExportRocksDBConfigToJSON            Code = 355
	LitePullMessage                      Code = 361
	RecallMessage                        Code = 370
	QueryAssignment                      Code = 400
	SetMessageRequestMode                Code = 401
	GetAllMessageRequestMode             Code = 402
	UpdateAndCreateStaticTopic           Code = 513
	GetBrokerMemberGroup                 Code = 901
	AddBroker                            Code = 902
	RemoveBroker                         Code = 903
	BrokerHeartbeat                      Code = 904
	NotifyMinBrokerIDChange              Code = 905
	ExchangeBrokerHAInfo                 Code = 906
	GetBrokerHAStatus                    Code = 907
	ResetMasterFlushOffset               Code = 908
	ControllerAlterSyncStateSet          Code = 1001
	ControllerElectMaster                Code = 1002
	ControllerRegisterBroker             Code = 1003
	ControllerGetReplicaInfo             Code = 1004
	ControllerGetMetadataInfo            Code = 1005
	ControllerGetSyncStateData           Code = 1006
	GetBrokerEpochCache                  Code = 1007
	NotifyBrokerRoleChanged              Code = 1008
	UpdateControllerConfig               Code = 1009
	GetControllerConfig                  Code = 1010
	CleanBrokerData                      Code = 1011
	ControllerGetNextBrokerID            Code = 1012
	ControllerApplyBrokerID              Code = 1013
	UpdateColdDataFlowCtrConfig          Code = 2001
	RemoveColdDataFlowCtrConfig          Code = 2002
	GetColdDataFlowCtrInfo               Code = 2003
	SetCommitLogReadMode                 Code = 2004
	AuthCreateUser                       Code = 3001
	AuthUpdateUser                       Code = 3002
	AuthDeleteUser                       Code = 3003
	AuthGetUser                          Code = 3004
	AuthListUser                         Code = 3005
	AuthCreateACL                        Code = 3006
	AuthUpdateACL                        Code = 3007
	AuthDeleteACL                        Code = 3008
	AuthGetACL                           Code = 3009
	AuthListACL                          Code = 3010
	SwitchTimerEngine                    Code = 5001
	PopMessage                           Code = 200050
	AckMessage                           Code = 200051
	PeekMessage                          Code = 200052
	ChangeMessageInvisibleTime           Code = 200053
	Notification                         Code = 200054
	PollingInfo                          Code = 200055
	PopRollback                          Code = 200056
	PopLiteMessage                       Code = 200070
	LiteSubscriptionCtl                  Code = 200071
	AckLiteMessage                       Code = 200072
	NotifyUnsubscribeLite                Code = 200073
	GetBrokerLiteInfo                    Code = 200074
	GetParentTopicInfo                   Code = 200075
	GetLiteTopicInfo                     Code = 200076
	GetLiteClientInfo                    Code = 200077
	GetLiteGroupInfo                     Code = 200078
	TriggerLiteDispatch                  Code = 200079
	BatchAckMessage                      Code = 200151
)

// Answer codes. Negative ones are made up by clients and never travel.
const (
	RPCTimeOut                           Code = -1006
	RPCSendToChannelFailed               Code = -1004
	RPCAddrIsNull                        Code = -1002
	RPCUnknown                           Code = -1000
	Success                              Code = 0
	SystemError                          Code = 1
	SystemBusy                           Code = 2
	RequestCodeNotSupported              Code = 3
	TransactionFailed                    Code = 4
	FlushDiskTimeout                     Code = 10
	SlaveNotAvailable                    Code = 11
	FlushSlaveTimeout                    Code = 12
	MessageIllegal                       Code = 13
	ServiceNotAvailable                  Code = 14
	VersionNotSupported                  Code = 15
	NoPermission                         Code = 16
	TopicNotExist                        Code = 17
	TopicExistAlready                    Code = 18
	PullNotFound                         Code = 19
	PullRetryImmediately                 Code = 20
	PullOffsetMoved                      Code = 21
	QueryNotFound                        Code = 22
	SubscriptionParseFailed              Code = 23
	SubscriptionNotExist                 Code = 24
	SubscriptionNotLatest                Code = 25
	SubscriptionGroupNotExist            Code = 26
	FilterDataNotExist                   Code = 27
	FilterDataNotLatest                  Code = 28
	InvalidParameter                     Code = 29
	TransactionShouldCommit              Code = 200
	TransactionShouldRollback            Code = 201
	TransactionStateUnknow               Code = 202
	TransactionStateGroupWrong           Code = 203
	NoBuyerID                            Code = 204
	NotInCurrentUnit                     Code = 205
	ConsumerNotOnline                    Code = 206
	ConsumeMsgTimeout                    Code = 207
	NoMessage                            Code = 208
	PollingFull                          Code = 209
	PollingTimeout                       Code = 210
	BrokerNotExist                       Code = 211
	BrokerDispatchNotComplete            Code = 212
	BroadcastConsumption                 Code = 213
	FlowControl                          Code = 215
	NotLeaderForQueue                    Code = 501
	IllegalOperation                     Code = 604
	GoAway                               Code = 1500
	ControllerFencedMasterEpoch          Code = 2000
	ControllerFencedSyncStateSetEpoch    Code = 2001
	ControllerInvalidMaster              Code = 2002
	ControllerInvalidReplicas            Code = 2003
	ControllerMasterNotAvailable         Code = 2004
	ControllerInvalidRequest             Code = 2005
	ControllerBrokerNotAlive             Code = 2006
	ControllerNotLeader                  Code = 2007
	ControllerBrokerMetadataNotExist     Code = 2008
	ControllerInvalidCleanBrokerMetadata Code = 2009
	ControllerBrokerNeedToBeRegistered   Code = 2010
	ControllerMasterStillExist           Code = 2011
	ControllerElectMasterFailed          Code = 2012
	ControllerAlterSyncStateSetFailed    Code = 2013
	ControllerBrokerIDInvalid            Code = 2014
	ControllerJRaftInternalError         Code = 2015
	ControllerBrokerLiveInfoNotExists    Code = 2016
	LMQQuotaExceeded                     Code = 2017
	LiteSubscriptionQuotaExceeded        Code = 2018
	UserNotExist                         Code = 3001
	PolicyNotExist                       Code = 3002
)

// String returns the stock name of the request with this code, or the bare number. For the code of
// an answer use AnswerName: the ranges overlap.
func (c Code) String() string { return nameOf(requestNames, c) }

// AnswerName returns the stock name of the answer with this code, or the bare number.
func (c Code) AnswerName() string { return nameOf(answerNames, c) }

func nameOf(names map[Code]string, c Code) string {
	if name, ok := names[c]; ok {
		return name
	}
	return strconv.Itoa(int(c))
}
