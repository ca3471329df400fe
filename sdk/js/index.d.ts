/** An event of the Nook protocol. The client's own agentId is used where an event has none. */
export type NookEvent = { id?: string; timestamp?: number; agentId?: string } & (
  | { type: 'agent.started'; workUnitId?: string; tokens?: number }
  | { type: 'agent.completed'; workUnitId?: string; tokens?: number; success?: boolean; trigger?: NookTrigger }
  | { type: 'agent.failed'; error?: string }
  | { type: 'agent.idle' }
  | { type: 'agent.state'; state: 'working' | 'idle' | 'sleeping' }
  | { type: 'agent.heartbeat' }
);

/** What a hook saw. An event with a trigger unlocks achievements and earns nothing; it has no tokens. */
export type NookTrigger = 'git.commit' | 'git.bugfix' | 'git.pr' | 'git.release';

export interface NookOptions {
  /** The agent of events that name none. */
  agentId: string;
  /** The identity that the agent belongs to: any text, or the npub of the node, or one that has claimed the agent there. */
  rootIdentity: string;
  /** The directory of the node, with url, token and spool: $NOOK_HOME or ~/.nook if absent. */
  home?: string;
  /** How long the node may take to answer, in ms: 2000 if absent. */
  timeout?: number;
  /** How often a failed request is repeated before its events are spooled: 3 times if absent. */
  retries?: number;
  /** Is told of an event that is lost: the node refused it, or it could not be spooled. */
  onError?: (error: Error, event: NookEvent) => void;
}

/** What has become of the events so far. */
export interface NookCounts {
  /** Taken by the node. */
  sent: number;
  /** In the spool, where the node finds them when it runs. */
  spooled: number;
  /** Refused by the node, impossible to spool, or a heartbeat without a node. */
  lost: number;
}

export declare class NookProtocol {
  constructor(options: NookOptions);
  readonly agentId: string;
  readonly rootIdentity: string;
  /** Reports an event and returns at once. Throws a TypeError that names the member if the event is invalid. */
  emit(event: NookEvent): void;
  /** Resolves when every event emitted so far is sent, spooled or lost. Never rejects. */
  flush(): Promise<NookCounts>;
  /** Sends what is left with one try each, spools the rest, and resolves as flush does. emit throws afterwards. */
  close(): Promise<NookCounts>;
}
